package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// clusterDomain is the cluster's DNS domain.
const clusterDomain = "cluster.local"

// hostsUpdater keeps the hosts files of all pods in step with the Services' endpoints: what a cluster's DNS would
// answer, except that names of ClusterIP services lead straight to ready pods.
type hostsUpdater struct {
	agent *agent
	wake  chan struct{}
}

func newHostsUpdater(a *agent) *hostsUpdater {
	return &hostsUpdater{agent: a, wake: make(chan struct{}, 1)}
}

func (h *hostsUpdater) changed() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hostsUpdater) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		time.Sleep(10 * time.Millisecond) // changes come in bursts
		for _, runner := range h.agent.runners() {
			if err := runner.writeHosts(); err != nil {
				slog.Error("writing a hosts file", "pod", runner.key, "error", err)
			}
		}
	}
}

// writeHosts writes the pod's hosts file where it changed; nothing to do before the pod has its address.
func (p *podRunner) writeHosts() error {
	p.hostsMu.Lock()
	defer p.hostsMu.Unlock()
	address := p.sandboxIP()
	if address == "" {
		return nil
	}
	slices, err := p.agent.slices.List(labels.Everything())
	if err != nil {
		return err
	}
	text := hostsText(p.latest(), address, slices)
	file := filepath.Join(p.networkDir(), "hosts")
	if old, err := os.ReadFile(file); err == nil && string(old) == text {
		return nil
	}
	return replaceFile(file, []byte(text), 0o644)
}

// hostsText is a pod's hosts file.
func hostsText(pod *v1.Pod, address string, endpointSlices []*discoveryv1.EndpointSlice) string {
	lines := map[string]bool{}
	for _, slice := range endpointSlices {
		service := slice.Labels[discoveryv1.LabelServiceName]
		if service == "" || slice.AddressType != discoveryv1.AddressTypeIPv4 || service == "kubernetes" && slice.Namespace == v1.NamespaceDefault {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if ready := endpoint.Conditions.Ready; ready != nil && !*ready {
				continue
			}
			names := serviceNames(service, slice.Namespace, pod.Namespace)
			if endpoint.Hostname != nil {
				for _, name := range serviceNames(service, slice.Namespace, pod.Namespace) {
					names = append(names, *endpoint.Hostname+"."+name)
				}
			}
			for _, ip := range endpoint.Addresses {
				lines[ip+"\t"+strings.Join(names, " ")] = true
			}
		}
	}
	services := make([]string, 0, len(lines))
	for line := range lines {
		services = append(services, line)
	}
	slices.Sort(services)

	var text strings.Builder
	text.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	fmt.Fprintf(&text, "127.0.0.1\t%s\n", strings.Join(serviceNames("kubernetes", v1.NamespaceDefault, pod.Namespace), " "))
	own := hostname(pod)
	if pod.Spec.Subdomain != "" {
		own = fmt.Sprintf("%s.%s.%s.svc.%s %s", own, pod.Spec.Subdomain, pod.Namespace, clusterDomain, own)
	}
	fmt.Fprintf(&text, "%s\t%s\n", address, own)
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(&text, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, " "))
	}
	for _, line := range services {
		text.WriteString(line + "\n")
	}
	return text.String()
}

// serviceNames lists what a pod may call a service; the bare name only in the service's own namespace.
func serviceNames(service, namespace, podNamespace string) []string {
	names := []string{
		fmt.Sprintf("%s.%s.svc.%s", service, namespace, clusterDomain),
		fmt.Sprintf("%s.%s.svc", service, namespace),
		fmt.Sprintf("%s.%s", service, namespace),
	}
	if namespace == podNamespace {
		names = append(names, service)
	}
	return names
}

// hostname is the pod's, cut to what the kernel takes.
func hostname(pod *v1.Pod) string {
	name := pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	if len(name) > 63 {
		name = strings.TrimRight(name[:63], "-.")
	}
	return name
}

// resolvConf names no server that answers: every name the pod may use is in its hosts file, so others fail at once.
func resolvConf(namespace string) string {
	return fmt.Sprintf("search %[1]s.svc.%[2]s svc.%[2]s %[2]s\nnameserver 127.0.0.1\noptions ndots:5 attempts:1 timeout:1\n", namespace, clusterDomain)
}
