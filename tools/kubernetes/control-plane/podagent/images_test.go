package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheFirstMatchingImageRuleWins(t *testing.T) {
	no := false
	rules := imageRules{Rules: []imageRule{
		{Match: `broken/ray:`, Kind: imageMissing},
		{Match: `ray:`, Kind: imageHost},
		{Match: `device-plugin`, Kind: imageDevicePlugin, Resource: "nvidia.com/gpu", Registers: &no},
	}}
	for image, want := range map[string]string{
		"rayproject/ray:2.58.0":                  imageHost,
		"registry/broken/ray:2.58.0":             imageMissing,
		"nvcr.io/nvidia/k8s-device-plugin:v0.17": imageDevicePlugin,
		"nobody/knows:1":                         imageMissing,
	} {
		rule, err := rules.find(image)
		if err != nil || rule.Kind != want {
			t.Errorf("%s: got %q (%v), want %q", image, rule.Kind, err, want)
		}
	}
	if rule, _ := rules.find("device-plugin"); rule.registers() {
		t.Error("registers: false must hold")
	}
	if rule, _ := rules.find("ray:1"); !rule.registers() {
		t.Error("a plugin registers unless its rule says otherwise")
	}
}

func TestWrongImageRulesAreErrors(t *testing.T) {
	for _, rule := range []imageRule{{Match: "(", Kind: imageHost}, {Match: "x", Kind: "hostt"}} {
		if _, err := (imageRules{Rules: []imageRule{rule}}).find("x"); err == nil {
			t.Errorf("%+v: no error", rule)
		}
	}
}

func TestRulesAreReadAnewForEachPull(t *testing.T) {
	file := filepath.Join(t.TempDir(), "images.json")
	store := newImageStore(file)
	for _, kind := range []string{imageMissing, imageHost} {
		if err := os.WriteFile(file, []byte(`{"rules":[{"match":"ray","kind":"`+kind+`"}]}`), 0o644); err != nil {
			t.Fatal(err)
		}
		if rule, err := store.rule("ray:1"); err != nil || rule.Kind != kind {
			t.Errorf("got %q (%v), want %q", rule.Kind, err, kind)
		}
	}
}

func TestImageIDNamesTheRepositoryAndADigest(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for image, prefix := range map[string]string{
		"rayproject/ray:2.58.0":          "rayproject/ray@sha256:",
		"localhost:5000/ray":             "localhost:5000/ray@sha256:",
		"localhost:5000/ray:1":           "localhost:5000/ray@sha256:",
		"quay.io/kuberay/op:1@" + digest: "quay.io/kuberay/op@" + digest,
	} {
		id := imageID(image)
		if !strings.HasPrefix(id, prefix) || len(id) != len(repository(image))+len("@sha256:")+64 {
			t.Errorf("%s: got %s", image, id)
		}
	}
	if imageID("ray:1") == imageID("ray:2") {
		t.Error("two tags must not share a digest")
	}
}

func TestBackOffDoublesUpToFiveMinutes(t *testing.T) {
	for n, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		if got := backOff(10*time.Second, n); got != want*time.Second {
			t.Errorf("try %d: got %s, want %s", n, got, want*time.Second)
		}
	}
}
