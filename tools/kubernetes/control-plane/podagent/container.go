package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// role is a container's place in its pod's life.
type role int

const (
	roleInit    role = iota // runs to its end before the next
	roleSidecar             // an init container that stays
	roleMain
)

// Delays as the kubelet has them.
const (
	firstRestartDelay = 10 * time.Second
	firstPullDelay    = 10 * time.Second
	restartForgiven   = 10 * time.Minute // a run this long makes earlier failures forgotten
	configRetry       = 5 * time.Second
)

// waitForever is the command of images that only wait, ready to end when asked.
var waitForever = []string{"/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 86400 & wait $!; done"}

// container runs one container of a pod, again and again where its policy says so. The pod's lock guards status and
// instances.
type container struct {
	pod  *podRunner
	spec v1.Container
	role role

	status   v1.ContainerStatus
	current  *instance
	previous *instance
	up       chan struct{} // closed when the container has started for the first time
}

// instance is one run of a container.
type instance struct {
	id        string
	inside    // how to run more commands next to it
	process   *os.Process
	state     *os.ProcessState
	log       *logFile
	dir       string
	started   time.Time
	done      chan struct{} // closed when all its processes have ended
	unhealthy chan string   // why it must be stopped and run again
}

func (i *instance) ended() bool {
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

func newContainer(p *podRunner, spec v1.Container, role role) *container {
	return &container{
		pod: p, spec: spec, role: role, up: make(chan struct{}),
		status: v1.ContainerStatus{Name: spec.Name, Image: spec.Image, Started: new(bool)},
	}
}

// change edits the status under the pod's lock and has it published.
func (c *container) change(edit func(*v1.ContainerStatus)) {
	c.pod.mu.Lock()
	edit(&c.status)
	c.pod.mu.Unlock()
	c.pod.changed()
}

func (c *container) waiting(reason, message string) {
	c.change(func(s *v1.ContainerStatus) {
		s.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

func (c *container) event(kind, reason, format string, args ...any) {
	c.pod.containerEvent(c, kind, reason, format, args...)
}

// again says whether a container that ended with this code is run again.
func (c *container) again(exit int32) bool {
	switch policy := c.pod.latest().Spec.RestartPolicy; {
	case c.role == roleSidecar || policy == v1.RestartPolicyAlways && c.role == roleMain:
		return true
	case policy == v1.RestartPolicyNever:
		return false
	}
	return exit != 0
}

// supervise runs the container until it need not run again, or ctx ends. It returns the last exit code, and whether
// the container came to its end by itself.
func (c *container) supervise(ctx context.Context) (exit int32, ended bool) {
	failures := 0
	for ctx.Err() == nil {
		rule, ok := c.pull(ctx)
		if !ok {
			break
		}
		began := time.Now()
		run, err := c.start(ctx, rule)
		var wrong *configError
		if errors.As(err, &wrong) {
			c.waiting("CreateContainerConfigError", wrong.Error())
			c.event(v1.EventTypeWarning, "Failed", "Error: %v", wrong)
			sleep(ctx, configRetry)
			continue
		}
		if err != nil {
			exit = c.failedToStart(err)
		} else {
			exit = c.attend(ctx, run, rule)
		}
		if ctx.Err() != nil {
			break
		}
		if !c.again(exit) {
			return exit, true
		}
		if time.Since(began) > restartForgiven {
			failures = 0
		}
		if failures > 0 {
			delay := backOff(firstRestartDelay, failures-1)
			pod := c.pod.latest()
			message := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", delay, c.spec.Name, pod.Name, pod.Namespace, pod.UID)
			c.change(func(s *v1.ContainerStatus) {
				s.LastTerminationState = s.State
				s.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: message}}
			})
			c.event(v1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)", c.spec.Name, pod.Name, pod.Namespace, pod.UID)
			sleep(ctx, delay)
		}
		failures++
	}
	return exit, false
}

// pull waits until the image may be used; false when ctx ends first.
func (c *container) pull(ctx context.Context) (imageRule, bool) {
	pod, image, store := c.pod.latest(), c.spec.Image, c.pod.agent.images
	node := pod.Spec.NodeName
	for try := 0; ctx.Err() == nil; try++ {
		rule, err := store.rule(image)
		present := store.present(node, image)
		switch {
		case err == nil && rule.Kind != imageMissing && present && c.spec.ImagePullPolicy != v1.PullAlways:
			c.event(v1.EventTypeNormal, "Pulled", "Container image %q already present on machine", image)
			return rule, true
		case err == nil && rule.Kind != imageMissing && c.spec.ImagePullPolicy != v1.PullNever:
			c.event(v1.EventTypeNormal, "Pulling", "Pulling image %q", image)
			began := time.Now()
			if !present && !sleep(ctx, time.Duration(rule.PullSeconds*float64(time.Second))) {
				return rule, false
			}
			store.setPresent(node, image, true)
			took := time.Since(began).Round(time.Millisecond)
			c.event(v1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %s (%s including waiting). Image size: 0 bytes.", image, took, took)
			return rule, true
		}
		store.setPresent(node, image, false)
		if c.spec.ImagePullPolicy == v1.PullNever && err == nil {
			message := fmt.Sprintf("Container image %q is not present with pull policy of Never", image)
			c.event(v1.EventTypeWarning, "ErrImageNeverPull", "%s", message)
			c.waiting("ErrImageNeverPull", message)
			sleep(ctx, configRetry)
			continue
		}
		message := notFound(image)
		if err != nil {
			message = err.Error()
		}
		c.event(v1.EventTypeNormal, "Pulling", "Pulling image %q", image)
		c.event(v1.EventTypeWarning, "Failed", "Failed to pull image %q: %s", image, message)
		c.event(v1.EventTypeWarning, "Failed", "Error: ErrImagePull")
		c.waiting("ErrImagePull", message)
		delay := backOff(firstPullDelay, try)
		if sleep(ctx, 2*time.Second) {
			c.event(v1.EventTypeNormal, "BackOff", "Back-off pulling image %q", image)
			c.event(v1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
			c.waiting("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", image, message))
			sleep(ctx, delay-2*time.Second)
		}
	}
	return imageRule{}, false
}

// configError is a container that cannot be created from its specification as things are.
type configError struct{ error }

// start creates and starts the next instance.
func (c *container) start(ctx context.Context, rule imageRule) (*instance, error) {
	p := c.pod
	p.mu.Lock()
	box, volumes := p.sandbox, p.volumes
	number := c.status.RestartCount
	if c.status.ContainerID != "" {
		number++
		c.status.RestartCount = number
	}
	if c.status.State.Terminated != nil {
		c.status.LastTerminationState = c.status.State
	}
	p.mu.Unlock()

	env, err := containerEnv(c.spec, p.baseEnv(), p.lookupsFor(ctx, c.spec.Name))
	if err != nil {
		return nil, &configError{err}
	}
	argv, err := commandLine(c.spec, rule, env)
	if err != nil {
		return nil, &configError{err}
	}
	mounts, err := mountsOf(c.spec, volumes, env)
	if err != nil {
		return nil, &configError{err}
	}

	run := &instance{
		id:        newID(),
		inside:    inside{dir: c.spec.WorkingDir, env: env},
		dir:       filepath.Join(p.dir, "containers", fmt.Sprintf("%s-%d", c.spec.Name, number)),
		done:      make(chan struct{}),
		unhealthy: make(chan string, 1),
	}
	if run.inside.dir == "" {
		run.inside.dir = containerHome
	}
	if err := run.prepare(); err != nil {
		return nil, err
	}
	own := []bindMount{{Source: filepath.Join(run.dir, "tmp"), Target: "/tmp"}}
	for _, dir := range hiddenPaths(p.agent.containerPath) {
		own = append(own, bindMount{Source: dir, Target: dir})
	}
	for target, source := range rule.Paths {
		own = append(own, bindMount{Source: source, Target: target, ReadOnly: true})
	}
	own = append(own, bindMount{Source: filepath.Join(run.dir, "termination-log"), Target: c.terminationPath()})
	spec := containerSpec{
		Root:     filepath.Join(run.dir, "root"),
		Hide:     p.agent.stateDir,
		Network:  p.networkDir(),
		Hostname: hostname(p.latest()),
		Mounts:   append(own, mounts...),
		Dir:      run.inside.dir,
		Env:      env,
		Argv:     argv,
	}
	if s := c.spec.SecurityContext; s != nil && s.ReadOnlyRootFilesystem != nil {
		spec.ReadOnlyRoot = *s.ReadOnlyRootFilesystem
	}
	if run.log, err = createLog(c.logPath(number)); err != nil {
		return nil, err
	}
	c.event(v1.EventTypeNormal, "Created", "Created container: %s", c.spec.Name)
	err = run.begin(box, spec)
	c.change(func(s *v1.ContainerStatus) {
		s.ContainerID, s.ImageID = "bed://"+run.id, imageID(c.spec.Image)
		c.previous, c.current = c.current, run
		if err == nil {
			s.State = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(run.started).Rfc3339Copy()}}
		}
	})
	if err != nil {
		os.RemoveAll(run.dir)
		return nil, err
	}
	c.event(v1.EventTypeNormal, "Started", "Started container %s", c.spec.Name)
	p.writeState()
	return run, nil
}

// commandLine is what the container runs: its command or the image's, then its arguments.
func commandLine(spec v1.Container, rule imageRule, env []string) ([]string, error) {
	if rule.Kind != imageHost {
		return waitForever, nil
	}
	command := expandAll(spec.Command, env)
	if len(command) == 0 {
		command = append(command, rule.Command...)
	}
	if command = append(command, expandAll(spec.Args, env)...); len(command) == 0 {
		return nil, errors.New("no command specified")
	}
	return command, nil
}

func (i *instance) prepare() error {
	for _, dir := range []string{"root", "tmp"} {
		if err := os.MkdirAll(filepath.Join(i.dir, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(i.dir, "tmp"), 0o777|os.ModeSticky); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(i.dir, "termination-log"), nil, 0o666)
}

// begin starts the instance's first process; done is closed when it and all its children have ended.
func (i *instance) begin(box *sandbox, spec containerSpec) error {
	err := i.launch(box, spec)
	i.started = time.Now()
	if err != nil {
		i.log.finish()
		close(i.done)
		return err
	}
	go func() {
		i.state, _ = i.process.Wait()
		i.log.finish()
		close(i.done)
		os.Chmod(i.log.path, 0o644) // wakes those who follow the log
	}()
	return nil
}

func (i *instance) launch(box *sandbox, spec containerSpec) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	stdout, err := i.log.stream("stdout")
	if err != nil {
		return err
	}
	defer stdout.Close()
	stderr, err := i.log.stream("stderr")
	if err != nil {
		return err
	}
	defer stderr.Close()
	if i.process, err = box.startContainer(spec, null, stdout, stderr); err != nil {
		return err
	}
	if i.pidfd, err = openProcess(i.process.Pid); err != nil {
		i.process.Kill()
		i.process.Wait()
	}
	return err
}

// failedToStart records an instance that never ran.
func (c *container) failedToStart(err error) int32 {
	const exit = 128
	c.event(v1.EventTypeWarning, "Failed", "Error: failed to start container %q: %v", c.spec.Name, err)
	now := metav1.Now().Rfc3339Copy()
	c.change(func(s *v1.ContainerStatus) {
		if s.ContainerID == "" {
			s.ContainerID = "bed://" + newID()
		}
		s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: exit, Reason: "StartError", Message: "failed to start container: " + err.Error(), StartedAt: now, FinishedAt: now,
			ContainerID: s.ContainerID,
		}}
	})
	return exit
}

// attend looks after a running instance until it has ended, and records how.
func (c *container) attend(ctx context.Context, run *instance, rule imageRule) int32 {
	living, stopProbes := context.WithCancel(ctx)
	defer stopProbes()
	if rule.Kind == imageDevicePlugin && rule.registers() {
		defer c.pod.agent.devices.started(c.pod.latest().Spec.NodeName, rule.Resource)()
	}
	go c.bringUp(living, run)
	select {
	case <-run.done:
	case reason := <-run.unhealthy:
		stopProbes()
		c.event(v1.EventTypeNormal, "Killing", "%s", reason)
		c.stop(run, c.unhealthyGrace())
	case <-ctx.Done():
		c.event(v1.EventTypeNormal, "Killing", "Stopping container %s", c.spec.Name)
		c.stop(run, c.pod.graceLeft())
	}
	stopProbes()
	exit := exitOf(run.state)
	reason := "Completed"
	if exit != 0 {
		reason = "Error"
	}
	message := c.terminationMessage(run, exit)
	c.change(func(s *v1.ContainerStatus) {
		s.Ready, s.Started = false, new(bool)
		s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: exit, Reason: reason, Message: message,
			StartedAt: metav1.NewTime(run.started).Rfc3339Copy(), FinishedAt: metav1.Now().Rfc3339Copy(), ContainerID: s.ContainerID,
		}}
	})
	c.pod.writeState()
	os.RemoveAll(run.dir)
	return exit
}

// bringUp runs the postStart hook and then the probes.
func (c *container) bringUp(ctx context.Context, run *instance) {
	if hooks := c.spec.Lifecycle; hooks != nil && hooks.PostStart != nil {
		if err := c.hook(ctx, run, hooks.PostStart); err != nil && ctx.Err() == nil {
			c.event(v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed: %v", err)
			run.fail("FailedPostStartHook")
			return
		}
	}
	c.runProbes(ctx, run)
}

// fail asks attend to stop the instance; the first reason counts.
func (i *instance) fail(reason string) {
	select {
	case i.unhealthy <- reason:
	default:
	}
}

// stop ends an instance: preStop hook, TERM, and KILL after the grace or when the pod is ended by force.
func (c *container) stop(run *instance, grace time.Duration) {
	ctx, cancel := context.WithTimeout(c.pod.killed, grace)
	defer cancel()
	if hooks := c.spec.Lifecycle; hooks != nil && hooks.PreStop != nil && !run.ended() {
		if err := c.hook(ctx, run, hooks.PreStop); err != nil {
			c.event(v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed: %v", err)
		}
	}
	run.process.Signal(syscall.SIGTERM)
	select {
	case <-run.done:
		return
	case <-ctx.Done():
	}
	run.process.Kill()
	<-run.done
}

func (c *container) unhealthyGrace() time.Duration {
	if probe := c.spec.LivenessProbe; probe != nil && probe.TerminationGracePeriodSeconds != nil {
		return time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
	}
	return c.pod.graceLeft()
}

func (c *container) terminationPath() string {
	if c.spec.TerminationMessagePath != "" {
		return c.spec.TerminationMessagePath
	}
	return v1.TerminationMessagePathDefault
}

func (c *container) terminationMessage(run *instance, exit int32) string {
	text, _ := os.ReadFile(filepath.Join(run.dir, "termination-log"))
	if len(text) == 0 && exit != 0 && c.spec.TerminationMessagePolicy == v1.TerminationMessageFallbackToLogsOnError {
		return lastLines(run)
	}
	return strings.ToValidUTF8(string(text[:min(len(text), 4096)]), "?")
}

func (c *container) logPath(number int32) string {
	return filepath.Join(c.pod.logDir, c.spec.Name, fmt.Sprintf("%d.log", number))
}

// exitOf words a process's end as container runtimes do: killed by signal n is exit code 128+n.
func exitOf(state *os.ProcessState) int32 {
	status := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(status.ExitStatus())
}

func newID() string {
	var random [32]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// sleep waits, and says false when ctx ended first.
func sleep(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// isGone says whether an API error means that the object, or this incarnation of it, no longer exists.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
