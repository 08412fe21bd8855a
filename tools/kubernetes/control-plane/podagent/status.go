package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// containerView is what a pod's status says about one container, and its role.
type containerView struct {
	role   role
	status v1.ContainerStatus
}

// podView is all that a pod's status is made of.
type podView struct {
	containers []containerView
	started    metav1.Time
	hostIP     string
	podIP      string
	sandbox    bool // the sandbox runs
	over       bool // nothing of the pod will run any more
	failure    *failure
}

// composeStatus is the pod's status as a kubelet would report it. Conditions that are not the kubelet's stay.
func composeStatus(pod *v1.Pod, view podView, now metav1.Time) v1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.StartTime = &view.started
	status.HostIP = view.hostIP
	status.HostIPs = []v1.HostIP{{IP: view.hostIP}}
	if view.podIP != "" {
		status.PodIP = view.podIP
		status.PodIPs = []v1.PodIP{{IP: view.podIP}}
	}
	initialized := isInitialized(view.containers)
	status.InitContainerStatuses, status.ContainerStatuses = nil, nil
	for _, each := range view.containers {
		shown := *each.status.DeepCopy()
		if shown.State == (v1.ContainerState{}) {
			reason := "ContainerCreating"
			if each.role != roleMain || !initialized {
				reason = "PodInitializing"
			}
			shown.State.Waiting = &v1.ContainerStateWaiting{Reason: reason}
		}
		if each.role == roleMain {
			status.ContainerStatuses = append(status.ContainerStatuses, shown)
			continue
		}
		if each.role == roleInit && shown.State.Terminated != nil && shown.State.Terminated.ExitCode == 0 {
			shown.Ready = true
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, shown)
	}
	status.Phase = phaseOf(pod, view, initialized)
	status.Reason, status.Message = "", ""
	if view.failure != nil {
		status.Reason, status.Message = view.failure.reason, view.failure.message
	}
	status.ObservedGeneration = pod.Generation
	setConditions(pod, &status, view, initialized, now)
	return status
}

func isInitialized(containers []containerView) bool {
	return !slices.ContainsFunc(containers, func(c containerView) bool {
		switch c.role {
		case roleInit:
			return c.status.State.Terminated == nil || c.status.State.Terminated.ExitCode != 0
		case roleSidecar:
			return c.status.Started == nil || !*c.status.Started
		}
		return false
	})
}

// phaseOf follows the kubelet: Pending until every container has run, Running while one runs or will again.
func phaseOf(pod *v1.Pod, view podView, initialized bool) v1.PodPhase {
	if view.failure != nil {
		if view.over {
			return v1.PodFailed
		}
		return pod.Status.Phase
	}
	policy := pod.Spec.RestartPolicy
	var unstarted, running, failed, ended int
	for _, c := range view.containers {
		state := c.status.State
		switch {
		case c.role == roleInit:
			if state.Terminated != nil && state.Terminated.ExitCode != 0 && policy == v1.RestartPolicyNever {
				return v1.PodFailed
			}
		case c.role == roleSidecar:
		case state.Terminated != nil:
			ended++
			if state.Terminated.ExitCode != 0 {
				failed++
			}
		case state.Running != nil:
			running++
		case c.status.LastTerminationState.Terminated != nil:
			running++ // waits to run again
		default:
			unstarted++
		}
	}
	deleting := pod.DeletionTimestamp != nil
	switch {
	case view.over && deleting && ended == 0 && running == 0:
		return v1.PodFailed
	case unstarted > 0 && !(view.over && deleting):
		return v1.PodPending
	case running > 0 || !view.over && (deleting || policy == v1.RestartPolicyAlways || policy == v1.RestartPolicyOnFailure && failed > 0):
		return v1.PodRunning
	case failed > 0 || unstarted > 0:
		return v1.PodFailed
	}
	return v1.PodSucceeded
}

func setConditions(pod *v1.Pod, status *v1.PodStatus, view podView, initialized bool, now metav1.Time) {
	set := func(kind v1.PodConditionType, is bool, reason, message string) {
		condition := v1.PodCondition{Type: kind, Status: v1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: pod.Generation}
		if is {
			condition.Status = v1.ConditionTrue
		}
		if reason == "PodCompleted" {
			condition.Message = ""
		}
		condition.LastTransitionTime = now
		index := slices.IndexFunc(status.Conditions, func(c v1.PodCondition) bool { return c.Type == kind })
		if index < 0 {
			status.Conditions = append(status.Conditions, condition)
			return
		}
		if status.Conditions[index].Status == condition.Status {
			condition.LastTransitionTime = status.Conditions[index].LastTransitionTime
		}
		status.Conditions[index] = condition
	}
	var unready, incomplete []string
	for _, c := range view.containers {
		switch {
		case c.role == roleInit:
			if c.status.State.Terminated == nil || c.status.State.Terminated.ExitCode != 0 {
				incomplete = append(incomplete, c.status.Name)
			}
		case !c.status.Ready:
			unready = append(unready, c.status.Name)
		}
	}
	set(v1.PodReadyToStartContainers, view.sandbox, "", "")
	completed := ""
	switch status.Phase {
	case v1.PodSucceeded:
		completed = "PodCompleted"
	case v1.PodFailed:
		completed = "PodFailed"
	}
	switch {
	case initialized:
		reason := ""
		if completed == "PodCompleted" {
			reason = completed
		}
		set(v1.PodInitialized, true, reason, "")
	default:
		set(v1.PodInitialized, false, "ContainersNotInitialized", fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(incomplete, " ")))
	}
	switch {
	case completed != "":
		set(v1.ContainersReady, false, completed, "")
		set(v1.PodReady, false, completed, "")
	case len(unready) > 0 || !initialized:
		message := fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
		set(v1.ContainersReady, false, "ContainersNotReady", message)
		set(v1.PodReady, false, "ContainersNotReady", message)
	default:
		set(v1.ContainersReady, true, "", "")
		if missing := unmetGates(pod, status); len(missing) > 0 {
			set(v1.PodReady, false, "ReadinessGatesNotReady", strings.Join(missing, ", "))
		} else {
			set(v1.PodReady, true, "", "")
		}
	}
}

// unmetGates lists the readiness gates whose condition is not True.
func unmetGates(pod *v1.Pod, status *v1.PodStatus) []string {
	var unmet []string
	for _, gate := range pod.Spec.ReadinessGates {
		if !slices.ContainsFunc(status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == v1.ConditionTrue
		}) {
			unmet = append(unmet, fmt.Sprintf("the status of pod readiness gate %q is not \"True\"", gate.ConditionType))
		}
	}
	return unmet
}

// changed has the status published soon.
func (p *podRunner) changed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *podRunner) publishLoop() {
	for {
		select {
		case <-p.absent.Done():
			return
		case <-p.wake:
			p.publish()
		}
	}
}

// publish patches the status until the API server has it, or the pod is gone.
func (p *podRunner) publish() {
	p.publishMu.Lock()
	defer p.publishMu.Unlock()
	for try := 0; p.absent.Err() == nil; try++ {
		err := p.publishOnce()
		if err == nil || isGone(err) || p.absent.Err() != nil {
			return
		}
		slog.Warn("publishing a status", "pod", p.key, "error", err)
		sleep(p.absent, min(backOff(100*time.Millisecond, try), 3*time.Second))
	}
}

func (p *podRunner) publishOnce() error {
	pod := p.latest()
	status := composeStatus(pod, p.view(), metav1.Now().Rfc3339Copy())
	if equality.Semantic.DeepEqual(pod.Status, status) {
		return nil
	}
	before, err := json.Marshal(v1.Pod{Status: pod.Status})
	if err != nil {
		return err
	}
	after, err := json.Marshal(v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: status})
	if err != nil {
		return err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.Pod{})
	if err != nil {
		return err
	}
	updated, err := p.agent.client.CoreV1().Pods(pod.Namespace).Patch(
		p.absent, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err == nil {
		p.update(updated)
	}
	return err
}

func (p *podRunner) view() podView {
	hostIP, podIP := p.hostIP(), p.podIP()
	p.mu.Lock()
	defer p.mu.Unlock()
	view := podView{
		started: p.started, hostIP: hostIP, podIP: podIP, sandbox: p.sandbox != nil, over: isClosed(p.torn), failure: p.failure,
	}
	for _, c := range p.containers() {
		view.containers = append(view.containers, containerView{role: c.role, status: *c.status.DeepCopy()})
	}
	return view
}
