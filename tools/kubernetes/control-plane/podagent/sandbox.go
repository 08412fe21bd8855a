package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sandbox holds a pod's namespaces. Everything in it ends with its first process.
type sandbox struct {
	link
	process *os.Process
	pidfd   *os.File
	pipe    *os.File // the first process ends when this closes, by intent or with the agent
	api     net.Listener
	done    chan struct{}
	network *network
}

// newSandbox starts a pod's first process and joins it to the bridge.
func newSandbox(n *network, api string, spec sandboxSpec) (*sandbox, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	command := exec.Command("/proc/self/exe", sandboxCommand)
	command.Stdin = reader
	command.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID | unix.CLONE_NEWNET,
	}
	complaint, err := startInside(command, spec)
	if err == nil && complaint != "" {
		err = errors.New(complaint)
	}
	if err != nil {
		writer.Close()
		if command.Process != nil {
			command.Process.Kill()
			command.Wait()
		}
		return nil, err
	}
	s := &sandbox{process: command.Process, pipe: writer, done: make(chan struct{}), network: n}
	go func() {
		command.Wait()
		close(s.done)
	}()
	if s.pidfd, err = openProcess(s.process.Pid); err == nil {
		s.link, err = n.attach(s.process.Pid)
	}
	if err == nil {
		s.api, err = s.serveAPI(api)
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// path is where the agent finds a path of the sandbox's mount namespace.
func (s *sandbox) path(inside string) string {
	return fmt.Sprintf("/proc/%d/root%s", s.process.Pid, inside)
}

// remove ends every process of the pod and takes it off the bridge.
func (s *sandbox) remove() {
	s.pipe.Close()
	s.process.Kill()
	<-s.done
	if s.api != nil {
		s.api.Close()
	}
	if s.netns != "" {
		s.network.detach(s.link)
	}
}

// startContainer starts a container's first process inside the sandbox, in process and mount namespaces of its own.
func (s *sandbox) startContainer(spec containerSpec, stdin, stdout, stderr *os.File) (*os.Process, error) {
	command := exec.Command("/proc/self/exe", containerStart)
	command.Stdin, command.Stdout, command.Stderr = stdin, stdout, stderr
	var report string
	err := enter(s.pidfd, func() (err error) {
		report, err = startInside(command, spec)
		return err
	})
	if err != nil {
		return nil, err
	}
	command.Wait()
	first, complaint, _ := strings.Cut(report, "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return nil, fmt.Errorf("starting a container: %q", report)
	}
	if pid == 0 {
		return nil, errors.New(complaint)
	}
	process, err := os.FindProcess(pid)
	if err == nil && complaint != "" {
		process.Kill()
		process.Wait()
		err = errors.New(complaint)
	}
	return process, err
}

// enter runs work on a thread inside all namespaces of a process.
func enter(pidfd *os.File, work func() error) error {
	return onThread(func() error {
		// A thread that shares its root and working directory with others may not change its mount namespace.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		flags := unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID | unix.CLONE_NEWNET
		if err := unix.Setns(int(pidfd.Fd()), flags); err != nil {
			if errors.Is(err, unix.ESRCH) {
				return errors.New("the container is not running")
			}
			return fmt.Errorf("entering the container: %w", err)
		}
		runtime.KeepAlive(pidfd)
		return work()
	})
}

// openProcess returns a handle of a process that never means another one; it closes when nothing refers to it.
func openProcess(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("pidfd of %d", pid)), nil
}

// startInside starts one of the agent's inner commands and returns what it reports until it has become what it
// should, or failed.
func startInside(command *exec.Cmd, spec any) (string, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}
	specReader, specWriter, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer specWriter.Close()
	reportReader, reportWriter, err := os.Pipe()
	if err != nil {
		specReader.Close()
		return "", err
	}
	defer reportReader.Close()
	command.ExtraFiles = []*os.File{specReader, reportWriter}
	err = command.Start()
	specReader.Close()
	reportWriter.Close()
	if err != nil {
		return "", err
	}
	if _, err := specWriter.Write(text); err != nil {
		return "", err
	}
	specWriter.Close()
	report, err := io.ReadAll(reportReader)
	return string(report), err
}

// inside is a command that runs in a container next to its own process.
type inside struct {
	pidfd *os.File
	dir   string
	env   []string
}

// start looks the command up in the container and starts it there.
func (i inside) start(command *exec.Cmd, argv []string) error {
	return enter(i.pidfd, func() error { return i.startHere(command, argv) })
}

// startHere is start on a thread that has entered already.
func (i inside) startHere(command *exec.Cmd, argv []string) error {
	if len(argv) == 0 {
		return errors.New("no command given")
	}
	program, err := lookPath(argv[0], environment(i.env, "PATH"), i.dir)
	if err != nil {
		return err
	}
	command.Path, command.Args, command.Dir, command.Env = program, argv, i.dir, i.env
	return command.Start()
}

// output runs a command in the container and returns what it printed; the whole group of it ends with ctx.
func (i inside) output(ctx context.Context, argv []string) (string, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer reader.Close()
	command := &exec.Cmd{Stdout: writer, Stderr: writer, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	err = i.start(command, argv)
	writer.Close()
	if err != nil {
		return "", err
	}
	printed := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(reader, 10<<10))
		printed <- string(text)
		io.Copy(io.Discard, reader)
	}()
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		<-ended
		err = ctx.Err()
	}
	// Something left behind in the background may hold the pipe open.
	reader.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	return <-printed, err
}
