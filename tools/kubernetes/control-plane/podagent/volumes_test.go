package main

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestFilesOfAVolumeChangeTogetherAndKeepTheirModes(t *testing.T) {
	dir := t.TempDir()
	steps := []map[string]content{
		{"token": {[]byte("one"), 0o400}, "deep/er/key": {[]byte("x"), 0o644}},
		{"token": {[]byte("two"), 0o400}},
	}
	for _, files := range steps {
		if err := writeFiles(dir, files); err != nil {
			t.Fatal(err)
		}
		for name, want := range files {
			got, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || string(got) != string(want.data) {
				t.Errorf("%s: got %q (%v), want %q", name, got, err, want.data)
			}
			if info, _ := os.Stat(filepath.Join(dir, name)); info.Mode() != want.mode {
				t.Errorf("%s: mode %o, want %o", name, info.Mode(), want.mode)
			}
		}
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 { // ..data, one version, token
		t.Errorf("left over: %v", entries)
	}
}

func TestItemsChooseAndRenameKeys(t *testing.T) {
	data := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	files := map[string]content{}
	mode := int32(0o400)
	if err := choose(files, data, []v1.KeyToPath{{Key: "a", Path: "x/y", Mode: &mode}}, nil, nil, "secret"); err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 || string(files["x/y"].data) != "1" || files["x/y"].mode != 0o400 {
		t.Errorf("got %v", files)
	}
	if err := choose(files, data, []v1.KeyToPath{{Key: "c", Path: "c"}}, nil, nil, "secret"); err == nil {
		t.Error("an absent key must be an error")
	}
}

func TestMountsKeepTheVolumesReadOnlyAndStayInsideThem(t *testing.T) {
	volumes := map[string]volume{"secret": {path: "/s", readOnly: true}, "data": {path: "/d"}}
	container := v1.Container{VolumeMounts: []v1.VolumeMount{
		{Name: "secret", MountPath: "/etc/token", SubPath: "token"},
		{Name: "data", MountPath: "/data", SubPathExpr: "$(POD)"},
	}}
	mounts, err := mountsOf(container, volumes, []string{"POD=p"})
	if err != nil || len(mounts) != 2 {
		t.Fatalf("got %v (%v)", mounts, err)
	}
	if want := (bindMount{Source: "/s", SubPath: "token", Target: "/etc/token", ReadOnly: true}); mounts[0] != want {
		t.Errorf("got %+v, want %+v", mounts[0], want)
	}
	if want := (bindMount{Source: "/d", SubPath: "p", Target: "/data"}); mounts[1] != want {
		t.Errorf("got %+v, want %+v", mounts[1], want)
	}
	for _, wrong := range []v1.VolumeMount{{Name: "data", MountPath: "/x", SubPath: "../y"}, {Name: "nothing", MountPath: "/x"}} {
		if _, err := mountsOf(v1.Container{VolumeMounts: []v1.VolumeMount{wrong}}, volumes, nil); err == nil {
			t.Errorf("%+v: no error", wrong)
		}
	}
}
