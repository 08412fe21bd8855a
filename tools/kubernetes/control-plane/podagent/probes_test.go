package main

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestProbeResultsCountOnceTheirThresholdIsReachedInARow(t *testing.T) {
	results := newTally(&v1.Probe{SuccessThreshold: 2, FailureThreshold: 3})
	for i, step := range []struct{ ok, counts bool }{
		{true, false}, {true, true}, {true, true},
		{false, false}, {false, false}, {true, false},
		{false, false}, {false, false}, {false, true},
	} {
		if got := results.observe(step.ok); got != step.counts {
			t.Errorf("result %d (%t): counts %t, want %t", i, step.ok, got, step.counts)
		}
	}
}

func TestThresholdsDefaultToOne(t *testing.T) {
	results := newTally(&v1.Probe{})
	if !results.observe(false) || !results.observe(true) {
		t.Error("a single result must count")
	}
}

func TestProbePortsMayBeNamed(t *testing.T) {
	spec := v1.Container{Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080}}}
	for _, port := range []intstr.IntOrString{intstr.FromInt32(8080), intstr.FromString("http"), intstr.FromString("8080")} {
		if got, err := portNumber(spec, port); err != nil || got != 8080 {
			t.Errorf("%v: got %d (%v)", port, got, err)
		}
	}
	if _, err := portNumber(spec, intstr.FromString("grpc")); err == nil {
		t.Error("an unknown name must be an error")
	}
}
