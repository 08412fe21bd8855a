package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
)

const (
	volumeRefresh   = time.Minute // how often secrets, configMaps and tokens in volumes are read again
	firstSetUpDelay = 500 * time.Millisecond
	longestSetUp    = 10 * time.Second
)

// podRunner carries one pod from its binding to its removal.
type podRunner struct {
	agent   *agent
	key     string // namespace/name
	uid     types.UID
	created time.Time
	dir     string // files of the pod
	logDir  string
	builder *volumeBuilder
	inits   []*container
	mains   []*container
	frozen  bool // had finished before the agent saw it

	working     context.Context // ends when the containers shall end
	stopWorking context.CancelFunc
	deleted     context.Context // ends when the pod object shall go
	setDeleted  context.CancelFunc
	killed      context.Context // ends when nothing may take time any more
	kill        context.CancelFunc
	absent      context.Context // ends when the pod object is gone, or the agent stops
	setAbsent   context.CancelFunc
	torn        chan struct{} // closed when nothing of the pod runs any more

	wake      chan struct{}
	publishMu sync.Mutex
	hostsMu   sync.Mutex

	mu       sync.Mutex
	pod      *v1.Pod
	started  metav1.Time
	sandbox  *sandbox
	address  string // the last sandbox's, kept for the status
	volumes  map[string]volume
	failure  *failure
	deadline time.Time // when the grace of a deletion is over
}

// failure ends a pod as a whole.
type failure struct{ reason, message string }

func newPodRunner(a *agent, pod *v1.Pod) *podRunner {
	p := &podRunner{
		agent: a, key: pod.Namespace + "/" + pod.Name, uid: pod.UID, created: pod.CreationTimestamp.Time,
		dir:    filepath.Join(a.stateDir, "run", string(pod.UID)),
		logDir: filepath.Join(a.stateDir, "logs", fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID)),
		frozen: pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed || pod.DeletionTimestamp != nil,
		torn:   make(chan struct{}), wake: make(chan struct{}, 1),
		pod: pod, started: metav1.Now().Rfc3339Copy(),
	}
	p.builder = &volumeBuilder{agent: a, pod: pod, dir: filepath.Join(p.dir, "volumes"), tokens: map[string]boundToken{}}
	p.absent, p.setAbsent = context.WithCancel(context.Background())
	p.killed, p.kill = context.WithCancel(p.absent)
	p.deleted, p.setDeleted = context.WithCancel(p.killed)
	p.working, p.stopWorking = context.WithCancel(p.deleted)
	for _, spec := range pod.Spec.InitContainers {
		kind := roleInit
		if spec.RestartPolicy != nil && *spec.RestartPolicy == v1.ContainerRestartPolicyAlways {
			kind = roleSidecar
		}
		p.inits = append(p.inits, newContainer(p, spec, kind))
	}
	for _, spec := range pod.Spec.Containers {
		p.mains = append(p.mains, newContainer(p, spec, roleMain))
	}
	if !p.frozen {
		p.resume(pod.Status)
	}
	return p
}

// resume takes over what a predecessor of the agent reported: its containers are gone, so they count as lost.
func (p *podRunner) resume(status v1.PodStatus) {
	if status.StartTime != nil {
		p.started = *status.StartTime
	}
	known := map[string]v1.ContainerStatus{}
	for _, each := range append(append([]v1.ContainerStatus{}, status.InitContainerStatuses...), status.ContainerStatuses...) {
		known[each.Name] = each
	}
	for _, c := range p.containers() {
		old, found := known[c.spec.Name]
		if !found || old.ContainerID == "" {
			continue
		}
		c.status.RestartCount, c.status.ContainerID, c.status.State = old.RestartCount, old.ContainerID, old.State
		if old.State.Running == nil {
			continue
		}
		c.status.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod agent started again",
			StartedAt: old.State.Running.StartedAt, FinishedAt: metav1.Now().Rfc3339Copy(), ContainerID: old.ContainerID,
		}}
		if p.pod.Spec.RestartPolicy == v1.RestartPolicyNever {
			p.failure = &failure{"", "containers were lost with the pod agent"}
		}
	}
}

func (p *podRunner) containers() []*container {
	return append(append([]*container{}, p.inits...), p.mains...)
}

func (p *podRunner) container(name string) *container {
	for _, c := range p.containers() {
		if c.spec.Name == name {
			return c
		}
	}
	return nil
}

// run is the pod's life.
func (p *podRunner) run() {
	if !p.frozen {
		go p.publishLoop()
		p.changed()
		p.mu.Lock()
		failed := p.failure != nil
		p.mu.Unlock()
		if !failed && p.setUp() {
			p.runContainers()
		}
	}
	p.tearDown()
	close(p.torn)
	p.changed()
	<-p.deleted.Done()
	if !p.frozen {
		p.publish()
	}
	p.removeObject()
	<-p.absent.Done()
	os.RemoveAll(p.dir)
	os.RemoveAll(p.logDir)
}

// setUp prepares volumes and sandbox, trying until it works; false when the pod shall end first.
func (p *podRunner) setUp() bool {
	for try := 0; p.working.Err() == nil; try++ {
		err := p.trySetUp()
		if err == nil {
			return true
		}
		var mount *mountError
		reason := "FailedCreatePodSandBox"
		if errors.As(err, &mount) {
			reason = "FailedMount"
		}
		p.event(v1.EventTypeWarning, reason, "%v", err)
		sleep(p.working, min(backOff(firstSetUpDelay, try), longestSetUp))
	}
	return false
}

func (p *podRunner) trySetUp() error {
	pod := p.latest()
	volumes, err := p.builder.build(p.working)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.networkDir(), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(p.networkDir(), "resolv.conf"), []byte(resolvConf(pod.Namespace)), 0o644); err != nil {
		return err
	}
	spec := sandboxSpec{Hostname: hostname(pod)}
	for _, each := range volumes {
		if each.memory != nil {
			spec.Tmpfs = append(spec.Tmpfs, *each.memory)
		}
	}
	box, err := newSandbox(p.agent.network, p.agent.api, spec)
	if err != nil {
		return err
	}
	for name, each := range volumes {
		if each.files == nil {
			continue
		}
		if err := writeFiles(box.path(each.path), each.files); err != nil {
			box.remove()
			return &mountError{volume: name, err: err}
		}
	}
	p.mu.Lock()
	p.sandbox, p.volumes, p.address = box, volumes, box.address.String()
	p.mu.Unlock()
	if err := p.writeHosts(); err != nil {
		p.tearDown()
		return err
	}
	p.writeState()
	p.changed()
	go p.watchSandbox(box)
	go p.refreshVolumes(box)
	if limit := pod.Spec.ActiveDeadlineSeconds; limit != nil {
		left := time.Until(p.started.Add(time.Duration(*limit) * time.Second))
		time.AfterFunc(left, func() { p.fail("DeadlineExceeded", "Pod was active on the node longer than the specified deadline") })
	}
	return nil
}

// watchSandbox fails the pod when its first process is ended by somebody else.
func (p *podRunner) watchSandbox(box *sandbox) {
	<-box.done
	p.mu.Lock()
	expected := p.sandbox != box
	p.mu.Unlock()
	if !expected {
		p.fail("SandboxEnded", "the pod's first process was ended")
	}
}

// refreshVolumes keeps volumes of files as current as a kubelet does.
func (p *podRunner) refreshVolumes(box *sandbox) {
	for sleep(p.working, volumeRefresh) {
		p.builder.pod = p.latest()
		for _, source := range p.latest().Spec.Volumes {
			old := p.volumes[source.Name]
			if old.files == nil {
				continue
			}
			files, err := p.builder.files(p.working, source)
			if err == nil && !sameFiles(files, old.files) {
				if err = writeFiles(box.path(old.path), files); err == nil {
					old.files = files
					p.mu.Lock()
					p.volumes = maps.Clone(p.volumes)
					p.volumes[source.Name] = old
					p.mu.Unlock()
				}
			}
			if err != nil && p.working.Err() == nil {
				slog.Warn("refreshing a volume", "pod", p.key, "volume", source.Name, "error", err)
			}
		}
	}
}

// runContainers runs the init containers one after another, then the others, and returns when all have ended.
func (p *podRunner) runContainers() {
	staying, stopSidecars := context.WithCancel(p.working)
	defer stopSidecars()
	var sidecars, mains sync.WaitGroup
	ready := true
	for _, c := range p.inits {
		if c.role == roleSidecar {
			sidecars.Go(func() { c.supervise(staying) })
			select {
			case <-c.up:
			case <-p.working.Done():
			}
			continue
		}
		if exit, ended := c.supervise(p.working); !ended || exit != 0 {
			ready = false
			break
		}
	}
	if ready && p.working.Err() == nil {
		for _, c := range p.mains {
			mains.Go(func() { c.supervise(p.working) })
		}
	}
	mains.Wait()
	stopSidecars()
	sidecars.Wait()
}

func (p *podRunner) tearDown() {
	p.mu.Lock()
	box := p.sandbox
	p.sandbox = nil
	p.mu.Unlock()
	if box != nil {
		box.remove()
	}
	p.writeState()
}

// fail ends the pod's containers and makes it Failed.
func (p *podRunner) fail(reason, message string) {
	p.mu.Lock()
	ends := p.failure == nil && !isClosed(p.torn)
	if ends {
		p.failure = &failure{reason, message}
	}
	p.mu.Unlock()
	if ends {
		p.event(v1.EventTypeWarning, reason, "%s", message)
		p.stopWorking()
		p.changed()
	}
}

// update takes a newer version of the pod object.
func (p *podRunner) update(pod *v1.Pod) {
	p.mu.Lock()
	newer := version(pod) >= version(p.pod)
	if newer {
		p.pod = pod
	}
	p.mu.Unlock()
	if !newer {
		return
	}
	if pod.DeletionTimestamp != nil {
		grace := time.Duration(0)
		if pod.DeletionGracePeriodSeconds != nil {
			grace = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
		}
		p.terminate(grace)
	}
	p.changed()
}

// terminate starts the end of the pod, or shortens the grace of one that has started.
func (p *podRunner) terminate(grace time.Duration) {
	end := time.Now().Add(grace)
	p.mu.Lock()
	sooner := p.deadline.IsZero() || end.Before(p.deadline)
	if sooner {
		p.deadline = end
	}
	p.mu.Unlock()
	if sooner {
		time.AfterFunc(grace, p.kill)
		p.setDeleted()
	}
}

// gone ends what runs of a pod whose object no longer exists.
func (p *podRunner) gone() { p.setAbsent() }

// abandon ends the pod because the agent ends.
func (p *podRunner) abandon() {
	p.setAbsent()
	p.mu.Lock()
	box := p.sandbox
	p.mu.Unlock()
	if box != nil {
		box.process.Kill()
	}
	<-p.torn
}

// removeObject deletes the pod object for good.
func (p *podRunner) removeObject() {
	none := int64(0)
	options := metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &p.uid}}
	pod := p.latest()
	for try := 0; p.absent.Err() == nil; try++ {
		// Not p.absent: the watch may tell of the end before the answer does.
		err := p.agent.client.CoreV1().Pods(pod.Namespace).Delete(context.Background(), pod.Name, options)
		if err == nil || isGone(err) {
			return
		}
		slog.Warn("removing a pod", "pod", p.key, "error", err)
		sleep(p.absent, min(backOff(200*time.Millisecond, try), 5*time.Second))
	}
}

// graceLeft is how long a container may take to end.
func (p *podRunner) graceLeft() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.deadline.IsZero() {
		return time.Until(p.deadline)
	}
	if grace := p.pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		return time.Duration(*grace) * time.Second
	}
	return v1.DefaultTerminationGracePeriodSeconds * time.Second
}

// latest is the newest known version of the pod object; it must not be changed.
func (p *podRunner) latest() *v1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pod
}

func (p *podRunner) sandboxIP() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.address
}

func (p *podRunner) podIP() string {
	if p.latest().Spec.HostNetwork {
		return p.hostIP()
	}
	return p.sandboxIP()
}

// hostIP is the node's internal address.
func (p *podRunner) hostIP() string {
	if node, err := p.agent.nodes.Get(p.latest().Spec.NodeName); err == nil {
		for _, address := range node.Status.Addresses {
			if address.Type == v1.NodeInternalIP {
				return address.Address
			}
		}
	}
	return "127.0.0.1"
}

// dial connects from inside the pod.
func (p *podRunner) dial(ctx context.Context, address string) (net.Conn, error) {
	p.mu.Lock()
	box := p.sandbox
	p.mu.Unlock()
	if box == nil {
		return nil, errors.New("the pod is not running")
	}
	return box.dial(ctx, address)
}

func (p *podRunner) networkDir() string { return filepath.Join(p.dir, "network") }

// baseEnv is what every container of the pod has in its environment before its own.
func (p *podRunner) baseEnv() []string {
	return []string{
		"PATH=" + p.agent.containerPath,
		"HOME=" + containerHome,
		"HOSTNAME=" + hostname(p.latest()),
		"KUBERNETES_SERVICE_HOST=127.0.0.1",
		"KUBERNETES_SERVICE_PORT=" + servicePort,
		"KUBERNETES_SERVICE_PORT_HTTPS=" + servicePort,
	}
}

func (p *podRunner) event(kind, reason, format string, args ...any) {
	p.eventAt("", kind, reason, format, args...)
}

func (p *podRunner) containerEvent(c *container, kind, reason, format string, args ...any) {
	list := "containers"
	if c.role != roleMain {
		list = "initContainers"
	}
	p.eventAt(fmt.Sprintf("spec.%s{%s}", list, c.spec.Name), kind, reason, format, args...)
}

func (p *podRunner) eventAt(field, kind, reason, format string, args ...any) {
	pod := p.latest()
	object, err := reference.GetPartialReference(scheme.Scheme, pod, field)
	if err != nil {
		slog.Error("recording an event", "pod", p.key, "error", err)
		return
	}
	p.agent.event(object, pod.Spec.NodeName, kind, reason, format, args...)
}

// podState is what tests read to find a running pod's processes and its link.
type podState struct {
	Namespace  string         `json:"namespace"`
	Name       string         `json:"name"`
	UID        types.UID      `json:"uid"`
	Node       string         `json:"node"`
	IP         string         `json:"ip"`
	Netns      string         `json:"netns"`
	Veth       string         `json:"veth"` // the bridge's side, inside the bed's namespace
	Bridge     string         `json:"bridge"`
	PID        int            `json:"pid"` // the sandbox's first process: the pod ends with it
	Containers map[string]int `json:"containers"`
}

// writeState keeps the state file of a running pod; without a sandbox there is none.
func (p *podRunner) writeState() {
	p.mu.Lock()
	defer p.mu.Unlock()
	file := filepath.Join(p.agent.stateDir, "pods", p.pod.Namespace+"_"+p.pod.Name+".json")
	if p.sandbox == nil {
		var old podState
		if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &old) == nil && old.UID == p.uid {
			os.Remove(file)
		}
		return
	}
	state := podState{
		Namespace: p.pod.Namespace, Name: p.pod.Name, UID: p.uid, Node: p.pod.Spec.NodeName,
		IP: p.address, Netns: p.sandbox.netns, Veth: p.sandbox.veth, Bridge: bridgeName, PID: p.sandbox.process.Pid,
		Containers: map[string]int{},
	}
	for _, c := range p.containers() {
		if c.current != nil && c.current.process != nil && !c.current.ended() {
			state.Containers[c.spec.Name] = c.current.process.Pid
		}
	}
	text, err := json.MarshalIndent(state, "", "  ")
	if err == nil {
		err = replaceFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		slog.Error("writing the state", "pod", p.key, "error", err)
	}
}

// version orders versions of one object; the API server counts them up.
func version(pod *v1.Pod) uint64 {
	number, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	return number
}
