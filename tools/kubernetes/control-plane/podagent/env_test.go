package main

import (
	"errors"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
)

func secretRef(name, key string, optional bool) *v1.EnvVarSource {
	return &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
		LocalObjectReference: v1.LocalObjectReference{Name: name}, Key: key, Optional: &optional,
	}}
}

var testLookups = lookups{
	secret: func(name string) (map[string][]byte, error) {
		if name != "token" {
			return nil, apierrors.NewNotFound(v1.Resource("secret"), name)
		}
		return map[string][]byte{"key": []byte("hush")}, nil
	},
	configMap: func(string) (map[string]string, error) { return map[string]string{"A": "from map", "B": "b"}, nil },
	field:     func(path string) (string, error) { return "<" + path + ">", nil },
	resource:  func(*v1.ResourceFieldSelector) (string, error) { return "", errors.New("not asked") },
}

func TestEnvironmentIsBaseThenEnvFromThenEnv(t *testing.T) {
	container := v1.Container{
		EnvFrom: []v1.EnvFromSource{{Prefix: "C_", ConfigMapRef: &v1.ConfigMapEnvSource{}}},
		Env: []v1.EnvVar{
			{Name: "C_A", Value: "own"},
			{Name: "URL", Value: "http://$(HOST):$(C_B)/$$(HOST)/$(UNKNOWN)"},
			{Name: "TOKEN", ValueFrom: secretRef("token", "key", false)},
			{Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "ABSENT", ValueFrom: secretRef("nobody", "key", true)},
		},
	}
	got, err := containerEnv(container, []string{"HOST=h", "C_B=base"}, testLookups)
	want := []string{"C_A=own", "C_B=b", "HOST=h", "IP=<status.podIP>", "TOKEN=hush", "URL=http://h:b/$(HOST)/$(UNKNOWN)"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}

func TestAnAbsentSecretOrKeyIsAnErrorThatNamesIt(t *testing.T) {
	for want, source := range map[string]*v1.EnvVarSource{
		`secret "nobody" not found`:               secretRef("nobody", "key", false),
		"couldn't find key other in Secret token": secretRef("token", "other", false),
	} {
		_, err := containerEnv(v1.Container{Env: []v1.EnvVar{{Name: "X", ValueFrom: source}}}, nil, testLookups)
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestCommandIsTheContainersOrTheImagesWithArgumentsExpanded(t *testing.T) {
	rule := imageRule{Kind: imageHost, Command: []string{"/entry"}}
	env := []string{"PORT=6379"}
	for _, each := range []struct {
		spec v1.Container
		rule imageRule
		want []string
	}{
		{v1.Container{Command: []string{"ray"}, Args: []string{"--port=$(PORT)"}}, rule, []string{"ray", "--port=6379"}},
		{v1.Container{Args: []string{"-v"}}, rule, []string{"/entry", "-v"}},
		{v1.Container{Command: []string{"ignored"}}, imageRule{Kind: imagePause}, waitForever},
	} {
		got, err := commandLine(each.spec, each.rule, env)
		if err != nil || !slices.Equal(got, each.want) {
			t.Errorf("got %q (%v), want %q", got, err, each.want)
		}
	}
	if _, err := commandLine(v1.Container{}, imageRule{Kind: imageHost}, nil); err == nil {
		t.Error("no command anywhere must be an error")
	}
}

func TestResourceFieldsRoundUpAndFallBackToTheNode(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{
		Name:      "c",
		Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m")}},
	}}}}
	allocatable := v1.ResourceList{v1.ResourceMemory: resource.MustParse("3Gi")}
	for _, each := range []struct {
		resource, divisor, want string
	}{
		{"limits.cpu", "0", "2"},
		{"limits.cpu", "1m", "1500"},
		{"limits.memory", "1Mi", "3072"},
		{"requests.memory", "1Mi", "0"},
	} {
		ref := &v1.ResourceFieldSelector{Resource: each.resource, Divisor: resource.MustParse(each.divisor)}
		got, err := resourceField(pod, ref, "c", allocatable)
		if err != nil || got != each.want {
			t.Errorf("%s by %s: got %s (%v), want %s", each.resource, each.divisor, got, err, each.want)
		}
	}
}
