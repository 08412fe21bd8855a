package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyTheMachinesOwnTopMountsAreCarriedOver(t *testing.T) {
	mountinfo := strings.Join([]string{
		`22 1 254:0 / / rw - ext4 /dev/vda rw`,
		`23 22 0:5 / /proc rw - proc proc rw`,
		`24 22 0:6 / /data\040disk rw - xfs /dev/vdb rw`,
		`25 24 0:7 / /data\040disk/inner rw - tmpfs x rw`,
		`26 22 0:8 / /state/run/volumes/x rw - tmpfs x rw`,
		`27 22 0:9 / /dev/shm rw - tmpfs x rw`,
		`28 22 0:9 / /devices rw - tmpfs x rw`,
	}, "\n")
	mounts, err := topMounts(strings.NewReader(mountinfo), []string{"/proc", "/dev", "/state"})
	if err != nil || len(mounts) != 2 || mounts[0].Target != "/data disk" || mounts[1].Target != "/devices" {
		t.Errorf("got %v (%v)", mounts, err)
	}
}

func TestProgramsAreFoundAsAShellWould(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"tool": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	search := "/nonexistent:" + dir
	for _, name := range []string{"tool", "./tool", filepath.Join(dir, "tool")} {
		if got, err := lookPath(name, search, dir); err != nil || got != filepath.Join(dir, "tool") {
			t.Errorf("%s: got %s (%v)", name, got, err)
		}
	}
	for name, want := range map[string]string{"text": "not found in $PATH", "./text": "permission denied", "./none": "no such file"} {
		if _, err := lookPath(name, search, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

func TestAddressesAreGivenOutInTurnAndEndWithTheRange(t *testing.T) {
	n := newNetwork("x", netip.MustParsePrefix("10.64.0.0/29"))
	var given []string
	for {
		address, err := n.take()
		if err != nil {
			break
		}
		given = append(given, address.String())
	}
	if got := strings.Join(given, " "); got != "10.64.0.2 10.64.0.3 10.64.0.4 10.64.0.5 10.64.0.6" {
		t.Errorf("got %s", got)
	}
	n.release(netip.MustParseAddr("10.64.0.4"))
	if again, err := n.take(); err != nil || again.String() != "10.64.0.4" {
		t.Errorf("got %s (%v)", again, err)
	}
}
