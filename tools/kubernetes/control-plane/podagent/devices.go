package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// devicesAnnotation holds a node's devices as JSON, resource name -> count.
const devicesAnnotation = "bed.ray-train-efa/devices"

// plugin is one resource of one node.
type plugin struct{ node, resource string }

// deviceManager publishes devices on nodes while a device plugin for them runs there.
type deviceManager struct {
	client kubernetes.Interface
	nodes  corelisters.NodeLister

	mu      sync.Mutex
	running map[plugin]int
	patch   sync.Mutex
}

func newDeviceManager(client kubernetes.Interface, nodes corelisters.NodeLister) *deviceManager {
	return &deviceManager{client: client, nodes: nodes, running: map[plugin]int{}}
}

// started notes a running plugin; what it returns notes its end.
func (m *deviceManager) started(node, resource string) (ended func()) {
	p := plugin{node, resource}
	m.count(p, 1)
	go m.publish(p)
	return sync.OnceFunc(func() {
		m.count(p, -1)
		go m.publish(p)
	})
}

func (m *deviceManager) count(p plugin, change int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running[p] += change; m.running[p] == 0 {
		delete(m.running, p)
	}
}

func (m *deviceManager) runs(p plugin) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running[p] > 0
}

// nodeChanged publishes again where the node shows other devices than its annotation says.
func (m *deviceManager) nodeChanged(node *v1.Node) {
	m.mu.Lock()
	all := maps.Clone(m.running)
	m.mu.Unlock()
	for p := range all {
		if p.node != node.Name {
			continue
		}
		want, err := deviceCount(node, p.resource)
		shown := node.Status.Allocatable[v1.ResourceName(p.resource)]
		if err == nil && shown.Value() != want {
			go m.publish(p)
		}
	}
}

// publish patches the node until it shows what is so; a plugin that ended leaves its capacity and no allocatable.
func (m *deviceManager) publish(p plugin) {
	m.patch.Lock()
	defer m.patch.Unlock()
	for try := range 20 {
		node, err := m.nodes.Get(p.node)
		if errors.IsNotFound(err) {
			return
		}
		var count int64
		if err == nil {
			count, err = deviceCount(node, p.resource)
		}
		if err == nil {
			text := fmt.Sprint(count)
			status := map[string]map[string]string{"allocatable": {p.resource: text}, "capacity": {p.resource: text}}
			if !m.runs(p) {
				status = map[string]map[string]string{"allocatable": {p.resource: "0"}}
			}
			patch, _ := json.Marshal(map[string]any{"status": status})
			_, err = m.client.CoreV1().Nodes().Patch(context.Background(), p.node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		}
		if err == nil || errors.IsNotFound(err) {
			return
		}
		slog.Warn("publishing devices", "node", p.node, "resource", p.resource, "error", err)
		time.Sleep(backOff(100*time.Millisecond, min(try, 5)))
	}
}

// deviceCount reads one resource of a node's annotation.
func deviceCount(node *v1.Node, resource string) (int64, error) {
	text := node.Annotations[devicesAnnotation]
	if text == "" {
		return 0, nil
	}
	var devices map[string]int64
	if err := json.Unmarshal([]byte(text), &devices); err != nil {
		return 0, fmt.Errorf("node %s, annotation %s: %w", node.Name, devicesAnnotation, err)
	}
	return devices[resource], nil
}
