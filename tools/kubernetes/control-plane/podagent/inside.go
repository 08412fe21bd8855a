package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The agent's own program sets up namespaces from within, under these command names.
const (
	sandboxCommand   = "sandbox-init"
	containerStart   = "container-start"
	containerCommand = "container-init"
)

// File descriptors of these commands: the specification comes in on one; on the other go out, from a container, its
// process id as the agent sees it on the first line, and then, where it failed, why.
const (
	specFD  = 3
	errorFD = 4
)

// networkFiles is where a container sees its pod's hosts and resolv.conf: a directory, so that they can be replaced.
const networkFiles = "/etc/pod-network"

// sandboxSpec is what a pod's first process sets up before it waits.
type sandboxSpec struct {
	Hostname string
	Tmpfs    []tmpfs
}

// tmpfs is a memory file system; Size 0 leaves it at the kernel's default.
type tmpfs struct {
	Path string
	Size int64
	Mode uint32
}

// containerSpec is what a container's first process sets up before it becomes the container's command.
type containerSpec struct {
	Root         string // an empty directory for the container's own file system
	Hide         string // a directory whose mounts the container must not see
	Network      string // the pod's directory of hosts and resolv.conf
	Hostname     string
	Mounts       []bindMount
	ReadOnlyRoot bool
	Dir          string
	Env          []string
	Argv         []string
}

// bindMount shows Source (or SubPath in it, made where missing) at Target.
type bindMount struct {
	Source   string
	SubPath  string
	Target   string
	ReadOnly bool
}

// sandboxInit keeps a pod's namespaces: when it ends, so do all processes of the pod.
func sandboxInit() {
	var spec sandboxSpec
	report := begin(&spec)
	err := func() error {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("making mounts private: %w", err)
		}
		// Names of other pods' network namespaces would be kept alive by copies of their mounts.
		for unix.Unmount("/run/netns", unix.MNT_DETACH) == nil {
		}
		if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
			return fmt.Errorf("setting the host name: %w", err)
		}
		for _, each := range spec.Tmpfs {
			data := fmt.Sprintf("mode=%o", each.Mode)
			if each.Size > 0 {
				data += fmt.Sprintf(",size=%d", each.Size)
			}
			if err := mountNew("tmpfs", each.Path, 0, data); err != nil {
				return err
			}
		}
		// cat ends when the pipe to the agent closes, so no pod outlives its agent; it has no children to reap, since
		// every container has a process namespace of its own below.
		cat, err := lookPath("cat", os.Getenv("PATH"), "/")
		if err != nil {
			return err
		}
		return syscall.Exec(cat, []string{"cat"}, nil)
	}()
	report(err)
}

// startContainer starts containerInit in new process and mount namespaces below the sandbox's: only a process that
// was born in the sandbox may do so. The new process becomes the agent's child, beside this one, which ends.
func startContainer() {
	command := exec.Command("/proc/self/exe", containerCommand)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	report := os.NewFile(errorFD, "report")
	command.ExtraFiles = []*os.File{os.NewFile(specFD, "specification"), report}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_PARENT}
	if err := command.Start(); err != nil {
		fmt.Fprintf(report, "0\n%v", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// containerInit makes a container's file system and becomes its command.
func containerInit() {
	var spec containerSpec
	report := begin(&spec)
	// /proc is still the machine's, which numbers processes as the agent does.
	pid, err := os.Readlink("/proc/self")
	if err != nil {
		report(err)
	}
	fmt.Fprintln(os.NewFile(errorFD, "report"), pid)
	report(func() error {
		if err := spec.makeRoot(); err != nil {
			return err
		}
		if err := os.Chdir(spec.Dir); err != nil {
			return err
		}
		syscall.Umask(0o022)
		program, err := lookPath(spec.Argv[0], environment(spec.Env, "PATH"), spec.Dir)
		if err != nil {
			return err
		}
		if err := syscall.Exec(program, spec.Argv, spec.Env); err != nil {
			return fmt.Errorf("exec %q: %w", program, err)
		}
		return nil
	}())
}

// begin reads the specification; what it returns reports a failure and ends the process.
func begin(spec any) func(error) {
	unix.CloseOnExec(specFD)
	unix.CloseOnExec(errorFD)
	report := func(err error) {
		fmt.Fprint(os.NewFile(errorFD, "report"), err)
		os.Exit(1)
	}
	if err := json.NewDecoder(os.NewFile(specFD, "specification")).Decode(spec); err != nil {
		report(err)
	}
	return report
}

// makeRoot turns the machine's file system into the container's: the same programs, but writes stay in the container,
// and /tmp, /run, /dev, /proc, /sys and the pod's volumes are its own.
func (spec *containerSpec) makeRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	mounts := append([]bindMount{{Source: spec.Network, Target: networkFiles, ReadOnly: true}}, spec.Mounts...)
	slices.SortStableFunc(mounts, func(a, b bindMount) int {
		return strings.Count(path.Clean(a.Target), "/") - strings.Count(path.Clean(b.Target), "/")
	})
	// Sources are taken before anything is mounted over them.
	host, err := hostMounts(spec.Hide)
	if err != nil {
		return err
	}
	var trees []tree
	for _, mount := range host {
		if opened, err := mount.open(); err == nil { // what root may not even look at is no program of the container
			trees = append(trees, opened)
		}
	}
	for _, mount := range mounts {
		opened, err := mount.open()
		if err != nil {
			return err
		}
		trees = append(trees, opened)
	}

	if err := mountNew("tmpfs", spec.Root, 0, "mode=755"); err != nil {
		return err
	}
	upper, work, merged := filepath.Join(spec.Root, "upper"), filepath.Join(spec.Root, "work"), filepath.Join(spec.Root, "merged")
	for _, dir := range []string{upper, work, merged} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := mountNew("overlay", merged, 0, fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", upper, work)); err != nil {
		return err
	}
	if err := os.Chdir(merged); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := mountSystem(); err != nil {
		return err
	}
	if err := writeNames(spec.Hostname); err != nil {
		return err
	}
	for _, each := range trees {
		if err := each.attach(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(spec.Dir, 0o755); err != nil {
		return err
	}
	if spec.ReadOnlyRoot {
		for _, dir := range []string{"/", "/tmp"} {
			if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
				return fmt.Errorf("making %s read-only: %w", dir, err)
			}
		}
	}
	return nil
}

// mountSystem gives the container its own /proc, /sys, /dev, /run and /dev/shm (64 MiB, as container runtimes do).
func mountSystem() error {
	for _, each := range []struct{ kind, target, data string }{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"tmpfs", "/run", "mode=755"},
		{"tmpfs", "/dev", "mode=755"},
		{"tmpfs", "/dev/shm", "mode=1777,size=64m"},
		{"devpts", "/dev/pts", "newinstance,ptmxmode=0666,mode=0620"},
	} {
		if err := os.MkdirAll(each.target, 0o755); err != nil {
			return err
		}
		if err := mountNew(each.kind, each.target, 0, each.data); err != nil {
			return err
		}
	}
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		if err := unix.Mknod("/dev/"+name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor))); err != nil {
			return fmt.Errorf("making /dev/%s: %w", name, err)
		}
		os.Chmod("/dev/"+name, 0o666)
	}
	if err := unix.Mknod("/dev/tty", unix.S_IFCHR|0o666, int(unix.Mkdev(5, 0))); err != nil {
		return fmt.Errorf("making /dev/tty: %w", err)
	}
	for name, target := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return err
		}
	}
	return nil
}

// writeNames points the name files at the pod's.
func writeNames(hostname string) error {
	for _, name := range []string{"hosts", "resolv.conf"} {
		if err := os.Remove("/etc/" + name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(path.Join(networkFiles, name), "/etc/"+name); err != nil {
			return err
		}
	}
	return os.WriteFile("/etc/hostname", []byte(hostname+"\n"), 0o644)
}

// tree is a detached copy of a mount on its way to its target.
type tree struct {
	fd        int
	directory bool
	target    string
}

func (m bindMount) open() (tree, error) {
	source := m.Source
	if m.SubPath != "" {
		source = filepath.Join(source, m.SubPath)
		if _, err := os.Stat(source); errors.Is(err, os.ErrNotExist) {
			if err := os.MkdirAll(source, 0o755); err != nil {
				return tree{}, err
			}
		}
	}
	info, err := os.Stat(source)
	if err != nil {
		return tree{}, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, fmt.Errorf("opening %s to mount it at %s: %w", source, m.Target, err)
	}
	if m.ReadOnly {
		flags := uint(unix.AT_EMPTY_PATH | unix.AT_RECURSIVE)
		if err := unix.MountSetattr(fd, "", flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return tree{}, fmt.Errorf("making %s read-only: %w", m.Target, err)
		}
	}
	return tree{fd: fd, directory: info.IsDir(), target: path.Join("/", m.Target)}, nil
}

func (t tree) attach() error {
	if t.directory {
		if err := os.MkdirAll(t.target, 0o755); err != nil {
			return err
		}
	} else {
		if err := os.MkdirAll(path.Dir(t.target), 0o755); err != nil {
			return err
		}
		file, err := os.OpenFile(t.target, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		file.Close()
	}
	if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.target, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS); err != nil {
		return fmt.Errorf("mounting at %s: %w", t.target, err)
	}
	return unix.Close(t.fd)
}

// hostMounts lists the machine's mounts right below its root, which an overlay does not show; what containers have of
// their own and hide are left out.
func hostMounts(hide string) ([]bindMount, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	hidden := []string{"/proc", "/sys", "/dev", "/run", "/var/run", "/tmp", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", hide}
	return topMounts(file, hidden)
}

func topMounts(mountinfo io.Reader, hidden []string) ([]bindMount, error) {
	var mounts []bindMount
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescapeMount(fields[4])
		below := func(dir string) bool { return point == dir || strings.HasPrefix(point, dir+"/") }
		if point == "/" || slices.ContainsFunc(hidden, below) {
			continue
		}
		// A mount below one already listed comes with it.
		if slices.ContainsFunc(mounts, func(m bindMount) bool { return below(m.Target) }) {
			continue
		}
		mounts = append(mounts, bindMount{Source: point, Target: point})
	}
	return mounts, lines.Err()
}

// unescapeMount undoes mountinfo's octal escapes.
func unescapeMount(text string) string {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				plain.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		plain.WriteByte(text[i])
	}
	return plain.String()
}

func mountNew(kind, target string, flags uintptr, data string) error {
	if err := unix.Mount(kind, target, kind, flags, data); err != nil {
		return fmt.Errorf("mounting a %s at %s: %w", kind, target, err)
	}
	return nil
}

// lookPath finds a program as execvp would, in a given PATH and working directory.
func lookPath(name, searchPath, dir string) (string, error) {
	executable := func(file string) bool {
		info, err := os.Stat(file)
		return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
	}
	if strings.Contains(name, "/") {
		file := name
		if !path.IsAbs(file) {
			file = path.Join(dir, file)
		}
		if _, err := os.Stat(file); err != nil {
			return "", fmt.Errorf("exec: %q: stat %s: no such file or directory", name, file)
		}
		if !executable(file) {
			return "", fmt.Errorf("exec: %q: permission denied", name)
		}
		return file, nil
	}
	for _, each := range filepath.SplitList(searchPath) {
		if file := path.Join(each, name); executable(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("exec: %q: executable file not found in $PATH", name)
}

// environment returns the last value of a variable.
func environment(env []string, name string) string {
	value := ""
	for _, each := range env {
		if key, text, found := strings.Cut(each, "="); found && key == name {
			value = text
		}
	}
	return value
}
