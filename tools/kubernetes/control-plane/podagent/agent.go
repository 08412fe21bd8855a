package main

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// nodeLabel marks the nodes whose pods the agent runs.
const nodeLabel = "bed.ray-train-efa/node"

// agent holds what all pods share.
type agent struct {
	options
	client  kubernetes.Interface
	network *network
	images  *imageStore
	devices *deviceManager
	hosts   *hostsUpdater

	informers informers.SharedInformerFactory
	podLister corelisters.PodLister
	nodes     corelisters.NodeLister
	slices    discoverylisters.EndpointSliceLister

	broadcaster record.EventBroadcaster

	mu        sync.Mutex
	stopping  bool
	running   map[types.UID]*podRunner
	recorders map[string]record.EventRecorder
}

func newAgent(opts options, client kubernetes.Interface) *agent {
	factory := informers.NewSharedInformerFactory(client, 0)
	a := &agent{
		options:     opts,
		client:      client,
		network:     newNetwork(opts.bedID, opts.podCIDR),
		images:      newImageStore(opts.images),
		informers:   factory,
		podLister:   factory.Core().V1().Pods().Lister(),
		nodes:       factory.Core().V1().Nodes().Lister(),
		slices:      factory.Discovery().V1().EndpointSlices().Lister(),
		broadcaster: record.NewBroadcaster(),
		running:     map[types.UID]*podRunner{},
		recorders:   map[string]record.EventRecorder{},
	}
	a.devices = newDeviceManager(client, a.nodes)
	a.hosts = newHostsUpdater(a)
	return a
}

// run follows the API server until ctx ends.
func (a *agent) run(ctx context.Context) {
	a.broadcaster.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: a.client.CoreV1().Events("")})
	defer a.broadcaster.Shutdown()

	slices := a.informers.Discovery().V1().EndpointSlices().Informer()
	slices.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { a.hosts.changed() },
		UpdateFunc: func(any, any) { a.hosts.changed() },
		DeleteFunc: func(any) { a.hosts.changed() },
	})
	nodes := a.informers.Core().V1().Nodes().Informer()
	nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { a.syncNode(object.(*v1.Node)) },
		UpdateFunc: func(_, object any) { a.syncNode(object.(*v1.Node)) },
	})
	pods := a.informers.Core().V1().Pods().Informer()
	a.informers.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced, slices.HasSynced) {
		return
	}
	go a.hosts.run(ctx)
	pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { a.syncPod(object.(*v1.Pod)) },
		UpdateFunc: func(_, object any) { a.syncPod(object.(*v1.Pod)) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = unknown.Obj
			}
			if pod, ok := object.(*v1.Pod); ok {
				a.forgetPod(pod)
			}
		},
	})
	<-ctx.Done()
}

// ownsNode says whether the pods of this node are the agent's to run.
func (a *agent) ownsNode(name string) bool {
	node, err := a.nodes.Get(name)
	return err == nil && node.Labels[nodeLabel] == "true"
}

func (a *agent) syncNode(node *v1.Node) {
	a.devices.nodeChanged(node)
	pods, err := a.podLister.List(labels.Everything())
	if err != nil {
		return
	}
	for _, pod := range pods {
		if pod.Spec.NodeName == node.Name && a.runner(pod.UID) == nil {
			a.syncPod(pod)
		}
	}
}

func (a *agent) syncPod(pod *v1.Pod) {
	if pod.Spec.NodeName == "" || !a.ownsNode(pod.Spec.NodeName) {
		return
	}
	a.mu.Lock()
	runner := a.running[pod.UID]
	started := false
	if runner == nil && !a.stopping {
		runner = newPodRunner(a, pod)
		a.running[pod.UID] = runner
		started = true
	}
	a.mu.Unlock()
	if runner == nil {
		return
	}
	runner.update(pod)
	if started {
		go runner.run()
	}
}

// forgetPod ends what is left of a pod whose object is gone.
func (a *agent) forgetPod(pod *v1.Pod) {
	a.mu.Lock()
	runner := a.running[pod.UID]
	delete(a.running, pod.UID)
	a.mu.Unlock()
	if runner != nil {
		runner.gone()
	}
}

func (a *agent) runner(uid types.UID) *podRunner {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running[uid]
}

func (a *agent) runners() []*podRunner {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*podRunner, 0, len(a.running))
	for _, runner := range a.running {
		all = append(all, runner)
	}
	return all
}

// find returns the newest pod of that name, or of that UID where one is given.
func (a *agent) find(namespace, name, uid string) *podRunner {
	var found *podRunner
	for _, runner := range a.runners() {
		pod := runner.latest()
		if pod.Namespace != namespace || pod.Name != name || uid != "" && string(pod.UID) != uid {
			continue
		}
		if found == nil || found.created.Before(runner.created) {
			found = runner
		}
	}
	return found
}

// event records a pod event as the kubelet of its node would.
func (a *agent) event(object *v1.ObjectReference, node, kind, reason, format string, args ...any) {
	a.mu.Lock()
	recorder := a.recorders[node]
	if recorder == nil {
		recorder = a.broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet", Host: node})
		a.recorders[node] = recorder
	}
	a.mu.Unlock()
	recorder.Eventf(object, kind, reason, format, args...)
}

// stopAll ends every pod at once, without grace and without telling the API server.
func (a *agent) stopAll() {
	a.mu.Lock()
	a.stopping = true
	a.mu.Unlock()
	var all sync.WaitGroup
	for _, runner := range a.runners() {
		all.Go(runner.abandon)
	}
	all.Wait()
}

// clearLeftovers ends what a killed predecessor with this bed id and state directory left: its pods' processes end
// with its pipes, so only those that outlived it by a moment, network namespaces and files remain.
func (a *agent) clearLeftovers() error {
	output, err := exec.Command("ip", "netns", "list").Output()
	if err != nil {
		return err
	}
	for _, line := range strings.Split(string(output), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != a.network.name && !strings.HasPrefix(fields[0], a.network.name+".") {
			continue
		}
		pids, _ := exec.Command("ip", "netns", "pids", fields[0]).Output()
		for _, text := range strings.Fields(string(pids)) {
			if pid, err := strconv.Atoi(text); err == nil {
				slog.Info("ending a leftover process", "pid", pid, "netns", fields[0])
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if err := runIP("netns", "delete", fields[0]); err != nil {
			return err
		}
	}
	for _, dir := range []string{"pods", "run", "logs", "nodes"} {
		if err := os.RemoveAll(filepath.Join(a.stateDir, dir)); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(a.stateDir, dir), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// hiddenPaths lists the directories of the container path that a private /tmp would hide, widened to the
// environment that a bin directory belongs to.
func hiddenPaths(containerPath string) []string {
	var hidden []string
	for _, dir := range filepath.SplitList(containerPath) {
		dir = filepath.Clean(dir)
		if !strings.HasPrefix(dir, "/tmp/") {
			continue
		}
		if filepath.Base(dir) == "bin" && filepath.Dir(dir) != "/tmp" {
			dir = filepath.Dir(dir)
		}
		if _, err := os.Stat(dir); err == nil && !slices.Contains(hidden, dir) {
			hidden = append(hidden, dir)
		}
	}
	return hidden
}
