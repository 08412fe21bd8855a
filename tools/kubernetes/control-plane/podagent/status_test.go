package main

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	earlier = metav1.NewTime(time.Unix(1000, 0))
	later   = metav1.NewTime(time.Unix(2000, 0))
)

func running(role role, ready bool) containerView {
	return containerView{role, v1.ContainerStatus{
		Name: "c", Ready: ready, Started: &ready, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}
}

func ended(role role, exit int32) containerView {
	return containerView{role, v1.ContainerStatus{
		Name: "c", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: exit}},
	}}
}

func waits(role role) containerView { return containerView{role, v1.ContainerStatus{Name: "c"}} }

func crashed() containerView {
	c := waits(roleMain)
	c.status.State.Waiting = &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
	c.status.LastTerminationState = ended(roleMain, 1).status.State
	return c
}

func podWith(policy v1.RestartPolicy) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy}, Status: v1.PodStatus{Phase: v1.PodRunning}}
}

func TestPhases(t *testing.T) {
	for name, each := range map[string]struct {
		policy     v1.RestartPolicy
		containers []containerView
		over       bool
		want       v1.PodPhase
	}{
		"nothing has started":            {v1.RestartPolicyAlways, []containerView{waits(roleMain)}, false, v1.PodPending},
		"init still runs":                {v1.RestartPolicyAlways, []containerView{running(roleInit, false), waits(roleMain)}, false, v1.PodPending},
		"init failed for good":           {v1.RestartPolicyNever, []containerView{ended(roleInit, 1), waits(roleMain)}, true, v1.PodFailed},
		"one of two runs":                {v1.RestartPolicyAlways, []containerView{running(roleMain, true), waits(roleMain)}, false, v1.PodPending},
		"all run":                        {v1.RestartPolicyAlways, []containerView{running(roleMain, true)}, false, v1.PodRunning},
		"waits to run again":             {v1.RestartPolicyAlways, []containerView{crashed()}, false, v1.PodRunning},
		"ended, about to run again":      {v1.RestartPolicyAlways, []containerView{ended(roleMain, 0)}, false, v1.PodRunning},
		"all ended well":                 {v1.RestartPolicyNever, []containerView{ended(roleMain, 0)}, true, v1.PodSucceeded},
		"one ended badly":                {v1.RestartPolicyNever, []containerView{ended(roleMain, 0), ended(roleMain, 1)}, true, v1.PodFailed},
		"sidecar's code does not matter": {v1.RestartPolicyNever, []containerView{ended(roleSidecar, 143), ended(roleMain, 0)}, true, v1.PodSucceeded},
	} {
		status := composeStatus(podWith(each.policy), podView{containers: each.containers, over: each.over}, later)
		if status.Phase != each.want {
			t.Errorf("%s: got %s, want %s", name, status.Phase, each.want)
		}
	}
}

func TestADeletedPodThatIsOverHasAFinalPhase(t *testing.T) {
	for want, containers := range map[v1.PodPhase][]containerView{
		v1.PodFailed:    {ended(roleMain, 143)},
		v1.PodSucceeded: {ended(roleMain, 0)},
	} {
		pod := podWith(v1.RestartPolicyAlways)
		pod.DeletionTimestamp = &earlier
		if got := composeStatus(pod, podView{containers: containers, over: true}, later).Phase; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	pod := podWith(v1.RestartPolicyAlways)
	pod.DeletionTimestamp = &earlier
	if got := composeStatus(pod, podView{containers: []containerView{waits(roleMain)}, over: true}, later).Phase; got != v1.PodFailed {
		t.Errorf("never started: got %s, want Failed", got)
	}
}

func condition(status v1.PodStatus, kind v1.PodConditionType) v1.PodCondition {
	for _, each := range status.Conditions {
		if each.Type == kind {
			return each
		}
	}
	return v1.PodCondition{}
}

func TestConditionsFollowTheContainers(t *testing.T) {
	for name, each := range map[string]struct {
		containers         []containerView
		initialized, ready v1.ConditionStatus
		reason             string
	}{
		"initializing": {[]containerView{running(roleInit, false), waits(roleMain)}, v1.ConditionFalse, v1.ConditionFalse, "ContainersNotReady"},
		"not ready":    {[]containerView{ended(roleInit, 0), running(roleMain, false)}, v1.ConditionTrue, v1.ConditionFalse, "ContainersNotReady"},
		"ready":        {[]containerView{ended(roleInit, 0), running(roleMain, true)}, v1.ConditionTrue, v1.ConditionTrue, ""},
	} {
		status := composeStatus(podWith(v1.RestartPolicyAlways), podView{containers: each.containers, sandbox: true}, later)
		if got := condition(status, v1.PodInitialized).Status; got != each.initialized {
			t.Errorf("%s: Initialized is %s", name, got)
		}
		for _, kind := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
			if got := condition(status, kind); got.Status != each.ready || got.Reason != each.reason {
				t.Errorf("%s: %s is %s (%s)", name, kind, got.Status, got.Reason)
			}
		}
	}
}

func TestConditionTimesMoveOnlyWithTheStatusAndForeignConditionsStay(t *testing.T) {
	pod := podWith(v1.RestartPolicyAlways)
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}}
	pod.Status = composeStatus(pod, podView{containers: []containerView{running(roleMain, true)}}, earlier)
	again := composeStatus(pod, podView{containers: []containerView{running(roleMain, true)}}, later)
	if got := condition(again, v1.PodReady).LastTransitionTime; !got.Equal(&earlier) {
		t.Errorf("Ready did not change, yet its time moved to %s", got)
	}
	unready := composeStatus(pod, podView{containers: []containerView{running(roleMain, false)}}, later)
	if got := condition(unready, v1.PodReady).LastTransitionTime; !got.Equal(&later) {
		t.Errorf("Ready changed, yet its time stayed at %s", got)
	}
	if condition(unready, v1.PodScheduled).Status != v1.ConditionTrue {
		t.Error("PodScheduled is the scheduler's and must stay")
	}
}

func TestReadinessGatesHoldBackReady(t *testing.T) {
	pod := podWith(v1.RestartPolicyAlways)
	pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	view := podView{containers: []containerView{running(roleMain, true)}}
	if got := condition(composeStatus(pod, view, later), v1.PodReady); got.Status != v1.ConditionFalse || got.Reason != "ReadinessGatesNotReady" {
		t.Errorf("got %s (%s)", got.Status, got.Reason)
	}
	pod.Status.Conditions = []v1.PodCondition{{Type: "example.com/gate", Status: v1.ConditionTrue}}
	if got := condition(composeStatus(pod, view, later), v1.PodReady); got.Status != v1.ConditionTrue {
		t.Errorf("got %s (%s)", got.Status, got.Reason)
	}
}

func TestAFailureEndsThePodWithItsReason(t *testing.T) {
	view := podView{containers: []containerView{ended(roleMain, 137)}, over: true, failure: &failure{"SandboxEnded", "gone"}}
	status := composeStatus(podWith(v1.RestartPolicyAlways), view, later)
	if status.Phase != v1.PodFailed || status.Reason != "SandboxEnded" || status.Message != "gone" {
		t.Errorf("got %s, %s, %s", status.Phase, status.Reason, status.Message)
	}
}

func TestContainersThatHaveNotStartedSayWhatTheyWaitFor(t *testing.T) {
	alone := composeStatus(podWith(v1.RestartPolicyAlways), podView{containers: []containerView{waits(roleMain)}}, later)
	behind := composeStatus(podWith(v1.RestartPolicyAlways), podView{containers: []containerView{waits(roleInit), waits(roleMain)}}, later)
	for want, state := range map[string]v1.ContainerState{
		"ContainerCreating": alone.ContainerStatuses[0].State,
		"PodInitializing":   behind.ContainerStatuses[0].State,
	} {
		if state.Waiting == nil || state.Waiting.Reason != want {
			t.Errorf("got %+v, want %s", state.Waiting, want)
		}
	}
}
