package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// containerHome is a container's home and default working directory, where an image would have its own.
const containerHome = "/home/container"

// lookups answers what an environment refers to. Absent objects and keys are errors, absent optional ones are not.
type lookups struct {
	secret    func(name string) (map[string][]byte, error)
	configMap func(name string) (map[string]string, error)
	field     func(path string) (string, error)
	resource  func(*v1.ResourceFieldSelector) (string, error)
}

// containerEnv builds a container's environment: base, then envFrom, then env, the later winning.
func containerEnv(container v1.Container, base []string, look lookups) ([]string, error) {
	values := map[string]string{}
	for _, each := range base {
		key, value, _ := strings.Cut(each, "=")
		values[key] = value
	}
	for _, source := range container.EnvFrom {
		switch {
		case source.SecretRef != nil:
			data, err := look.secret(source.SecretRef.Name)
			if err = forgive(err, source.SecretRef.Optional); err != nil {
				return nil, err
			}
			for key, value := range data {
				values[source.Prefix+key] = string(value)
			}
		case source.ConfigMapRef != nil:
			data, err := look.configMap(source.ConfigMapRef.Name)
			if err = forgive(err, source.ConfigMapRef.Optional); err != nil {
				return nil, err
			}
			for key, value := range data {
				values[source.Prefix+key] = value
			}
		}
	}
	for _, each := range container.Env {
		if each.ValueFrom == nil {
			values[each.Name] = expansion.Expand(each.Value, expansion.MappingFuncFor(values))
			continue
		}
		value, found, err := referred(each.ValueFrom, look)
		if err != nil {
			return nil, err
		}
		if found {
			values[each.Name] = value
		}
	}
	env := make([]string, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		env = append(env, key+"="+values[key])
	}
	return env, nil
}

func referred(source *v1.EnvVarSource, look lookups) (string, bool, error) {
	switch {
	case source.FieldRef != nil:
		value, err := look.field(source.FieldRef.FieldPath)
		return value, err == nil, err
	case source.ResourceFieldRef != nil:
		value, err := look.resource(source.ResourceFieldRef)
		return value, err == nil, err
	case source.SecretKeyRef != nil:
		ref := source.SecretKeyRef
		data, err := look.secret(ref.Name)
		value, found := data[ref.Key]
		return keyed(string(value), found, err, ref.Optional, fmt.Sprintf("key %s in Secret %s", ref.Key, ref.Name))
	case source.ConfigMapKeyRef != nil:
		ref := source.ConfigMapKeyRef
		data, err := look.configMap(ref.Name)
		value, found := data[ref.Key]
		return keyed(value, found, err, ref.Optional, fmt.Sprintf("key %s in ConfigMap %s", ref.Key, ref.Name))
	}
	return "", false, fmt.Errorf("the bed does not know this kind of environment source")
}

func keyed(value string, found bool, err error, optional *bool, what string) (string, bool, error) {
	if err = forgive(err, optional); err != nil {
		return "", false, err
	}
	if !found && (optional == nil || !*optional) {
		return "", false, fmt.Errorf("couldn't find %s", what)
	}
	return value, found, nil
}

// expand replaces $(NAME) by the environment's value.
func expand(text string, env []string) string {
	values := map[string]string{}
	for _, each := range env {
		key, value, _ := strings.Cut(each, "=")
		values[key] = value
	}
	return expansion.Expand(text, expansion.MappingFuncFor(values))
}

func expandAll(texts []string, env []string) []string {
	expanded := make([]string, len(texts))
	for i, text := range texts {
		expanded[i] = expand(text, env)
	}
	return expanded
}

// podField reads a field that an environment variable may refer to.
func podField(pod *v1.Pod, path, podIP, hostIP string) (string, error) {
	switch path {
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return hostIP, nil
	case "status.podIP", "status.podIPs":
		return podIP, nil
	}
	return fieldpath.ExtractFieldPathAsString(pod, path)
}

// resourceField reads a container's limit or request; a limit that is not set is the node's allocatable.
func resourceField(pod *v1.Pod, ref *v1.ResourceFieldSelector, ownName string, allocatable v1.ResourceList) (string, error) {
	name := ref.ContainerName
	if name == "" {
		name = ownName
	}
	index := slices.IndexFunc(pod.Spec.Containers, func(c v1.Container) bool { return c.Name == name })
	containers := pod.Spec.Containers
	if index < 0 {
		containers = pod.Spec.InitContainers
		index = slices.IndexFunc(containers, func(c v1.Container) bool { return c.Name == name })
	}
	if index < 0 {
		return "", fmt.Errorf("container %s not found", name)
	}
	kind, resourceName, _ := strings.Cut(ref.Resource, ".")
	list := containers[index].Resources.Limits
	if kind == "requests" {
		list = containers[index].Resources.Requests
	}
	quantity, found := list[v1.ResourceName(resourceName)]
	if !found && kind == "limits" {
		quantity = allocatable[v1.ResourceName(resourceName)]
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if resourceName == "cpu" {
		return strconv.FormatInt(ceilDivide(quantity.MilliValue(), divisor.MilliValue()), 10), nil
	}
	return strconv.FormatInt(ceilDivide(quantity.Value(), divisor.Value()), 10), nil
}

func ceilDivide(value, divisor int64) int64 { return (value + divisor - 1) / divisor }

// allocatable returns a node's allocatable resources, nil for an unknown node.
func (a *agent) allocatable(nodeName string) v1.ResourceList {
	node, err := a.nodes.Get(nodeName)
	if err != nil {
		return nil
	}
	return node.Status.Allocatable
}

// lookupsFor reads from the API server, each object once.
func (p *podRunner) lookupsFor(ctx context.Context, container string) lookups {
	pod, core := p.latest(), p.agent.client.CoreV1()
	secrets := map[string]map[string][]byte{}
	configMaps := map[string]map[string]string{}
	return lookups{
		secret: func(name string) (map[string][]byte, error) {
			if data, known := secrets[name]; known {
				return data, nil
			}
			secret, err := core.Secrets(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, shortNotFound(err, "secret", name)
			}
			secrets[name] = secret.Data
			return secret.Data, nil
		},
		configMap: func(name string) (map[string]string, error) {
			if data, known := configMaps[name]; known {
				return data, nil
			}
			config, err := core.ConfigMaps(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, shortNotFound(err, "configmap", name)
			}
			configMaps[name] = config.Data
			return config.Data, nil
		},
		field: func(path string) (string, error) { return podField(pod, path, p.podIP(), p.hostIP()) },
		resource: func(ref *v1.ResourceFieldSelector) (string, error) {
			return resourceField(pod, ref, container, p.agent.allocatable(pod.Spec.NodeName))
		},
	}
}

// shortNotFound keeps NotFound recognizable and words it as a kubelet does.
func shortNotFound(err error, kind, name string) error {
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(v1.Resource(kind), name)
	}
	return err
}
