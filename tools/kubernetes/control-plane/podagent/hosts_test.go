package main

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func slice(namespace, service string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   endpoints,
	}
}

func endpoint(ip string, ready bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
}

// addresses lists what a name leads to in a hosts file.
func addresses(hosts, name string) []string {
	var found []string
	for _, line := range strings.Split(hosts, "\n") {
		fields := strings.Fields(line)
		for _, each := range fields[min(1, len(fields)):] {
			if each == name {
				found = append(found, fields[0])
			}
		}
	}
	return found
}

func TestServiceNamesLeadToReadyPods(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "train", Name: "worker"}}
	hosts := hostsText(pod, "10.64.0.9", []*discoveryv1.EndpointSlice{
		slice("train", "head", endpoint("10.64.0.3", true), endpoint("10.64.0.4", false)),
		slice("other", "head", endpoint("10.64.0.5", true)),
		slice("default", "kubernetes", endpoint("192.0.2.1", true)),
	})
	for name, want := range map[string]string{
		"head":                         "10.64.0.3",
		"head.train":                   "10.64.0.3",
		"head.train.svc":               "10.64.0.3",
		"head.train.svc.cluster.local": "10.64.0.3",
		"head.other.svc.cluster.local": "10.64.0.5",
		"worker":                       "10.64.0.9",
		"kubernetes.default.svc":       "127.0.0.1",
	} {
		if got := addresses(hosts, name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %v, want %s\n%s", name, got, want, hosts)
		}
	}
}

func TestAllReadyPodsOfAServiceAreListed(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}}
	named := endpoint("10.64.0.4", true)
	name := "web-1"
	named.Hostname = &name
	hosts := hostsText(pod, "10.64.0.9", []*discoveryv1.EndpointSlice{slice("n", "web", endpoint("10.64.0.3", true)), slice("n", "web", named)})
	if got := addresses(hosts, "web"); strings.Join(got, " ") != "10.64.0.3 10.64.0.4" {
		t.Errorf("got %v\n%s", got, hosts)
	}
	if got := addresses(hosts, "web-1.web.n.svc.cluster.local"); strings.Join(got, " ") != "10.64.0.4" {
		t.Errorf("got %v\n%s", got, hosts)
	}
}

func TestLongPodNamesAreCutToAHostName(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("a", 62) + "-b"}}
	if got := hostname(pod); got != strings.Repeat("a", 62) {
		t.Errorf("got %q", got)
	}
}
