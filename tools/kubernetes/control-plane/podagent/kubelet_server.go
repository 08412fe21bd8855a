package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/creack/pty"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	remotecommandconsts "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubelet/pkg/cri/streaming/portforward"
	remotecommandserver "k8s.io/kubelet/pkg/cri/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

const (
	streamIdle     = 4 * time.Hour
	streamCreation = remotecommandconsts.DefaultStreamCreationTimeout
)

// newKubeletServer answers what the API server asks the kubelet of each of the bed's nodes. It serves loopback only
// and asks for no credentials.
func newKubeletServer(a *agent) (*http.Server, error) {
	certificate, err := selfSigned()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	for _, path := range []string{"/exec/{namespace}/{pod}/{container}", "/exec/{namespace}/{pod}/{uid}/{container}"} {
		mux.HandleFunc(path, a.serveExec)
	}
	for _, path := range []string{"/portForward/{namespace}/{pod}", "/portForward/{namespace}/{pod}/{uid}"} {
		mux.HandleFunc(path, a.servePortForward)
	}
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", a.serveLogs)
	return &http.Server{
		Handler:   mux,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		// Streams upgrade their connection, which HTTP/2 cannot.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}, nil
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "podagent"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// requested finds the pod of a request, or answers that there is none.
func (a *agent) requested(w http.ResponseWriter, r *http.Request) *podRunner {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	runner := a.find(namespace, name, r.PathValue("uid"))
	if runner == nil {
		http.Error(w, fmt.Sprintf("pod %q not found in namespace %q", name, namespace), http.StatusNotFound)
	}
	return runner
}

func (a *agent) serveExec(w http.ResponseWriter, r *http.Request) {
	runner := a.requested(w, r)
	if runner == nil {
		return
	}
	options, err := remotecommandserver.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	run := runner.instance(r.PathValue("container"), false)
	if run == nil || run.pidfd == nil || run.ended() {
		http.Error(w, fmt.Sprintf("container not found (%q)", r.PathValue("container")), http.StatusNotFound)
		return
	}
	remotecommandserver.ServeExec(w, r, executor{run}, r.PathValue("pod"), runner.uid, r.PathValue("container"),
		r.Form["command"], options, streamIdle, streamCreation, remotecommandconsts.SupportedStreamingProtocols)
}

// instance is the container's last run, or the one before it.
func (p *podRunner) instance(container string, previous bool) *instance {
	c := p.container(container)
	if c == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if previous {
		return c.previous
	}
	return c.current
}

// executor runs kubectl exec's commands next to an instance.
type executor struct{ run *instance }

func (e executor) ExecInContainer(_ context.Context, _ string, _ types.UID, _ string, argv []string, in io.Reader, out, errOut io.WriteCloser,
	tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	command := &exec.Cmd{SysProcAttr: &syscall.SysProcAttr{Setsid: true}, WaitDelay: 2 * time.Second}
	var err error
	if tty {
		err = e.onTerminal(command, argv, in, out, resize)
	} else {
		err = e.onPipes(command, argv, in, out, errOut)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: int(exitOf(exit.ProcessState))}
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

func (e executor) onPipes(command *exec.Cmd, argv []string, in io.Reader, out, errOut io.WriteCloser) error {
	if out != nil {
		command.Stdout = out
	}
	if errOut != nil {
		command.Stderr = errOut
	}
	if in != nil {
		// Not command.Stdin, whose copying Wait would wait for: clients keep stdin open until the command has ended.
		stdin, err := command.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			io.Copy(stdin, in)
			stdin.Close()
		}()
	}
	if err := e.run.start(command, argv); err != nil {
		return startError(err)
	}
	return command.Wait()
}

func (e executor) onTerminal(command *exec.Cmd, argv []string, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	command.SysProcAttr.Setctty = true
	var terminal *os.File
	err := enter(e.run.pidfd, func() error {
		master, slave, err := pty.Open()
		if err != nil {
			return err
		}
		defer slave.Close()
		command.Stdin, command.Stdout, command.Stderr = slave, slave, slave
		terminal = master
		return e.run.startHere(command, argv)
	})
	if terminal != nil {
		defer terminal.Close()
	}
	if err != nil {
		return startError(err)
	}
	go func() {
		for size := range resize {
			pty.Setsize(terminal, &pty.Winsize{Rows: size.Height, Cols: size.Width})
		}
	}()
	if in != nil {
		go io.Copy(terminal, in)
	}
	copied := make(chan struct{})
	go func() {
		if out != nil {
			io.Copy(out, terminal)
		}
		close(copied)
	}()
	err = command.Wait()
	select {
	case <-copied:
	case <-time.After(time.Second):
	}
	return err
}

// startError gives a command that cannot be found the exit code a container runtime gives it.
func startError(err error) error {
	return utilexec.CodeExitError{Err: fmt.Errorf("OCI runtime exec failed: %w", err), Code: 127}
}

func (a *agent) servePortForward(w http.ResponseWriter, r *http.Request) {
	runner := a.requested(w, r)
	if runner == nil {
		return
	}
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, forwarder{runner}, r.PathValue("pod"), runner.uid, options, streamIdle, streamCreation, portforward.SupportedProtocols)
}

// forwarder connects port-forward streams to a pod's loopback, as container runtimes do.
type forwarder struct{ runner *podRunner }

func (f forwarder) PortForward(ctx context.Context, _ string, _ types.UID, port int32, stream io.ReadWriteCloser) error {
	connection, err := f.runner.dial(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("failed to connect to localhost:%d inside the pod: %w", port, err)
	}
	splice(stream, connection)
	return nil
}

func (a *agent) serveLogs(w http.ResponseWriter, r *http.Request) {
	runner := a.requested(w, r)
	if runner == nil {
		return
	}
	options, err := logOptions(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	name, pod := r.PathValue("container"), r.PathValue("pod")
	run := runner.instance(name, options.Previous)
	switch {
	case runner.container(name) == nil:
		http.Error(w, fmt.Sprintf("container %q not found in pod %q", name, pod), http.StatusNotFound)
	case run == nil && options.Previous:
		http.Error(w, fmt.Sprintf("previous terminated container %q in pod %q not found", name, pod), http.StatusBadRequest)
	case run == nil:
		http.Error(w, fmt.Sprintf("container %q in pod %q is waiting to start: %s", name, pod, runner.waitingReason(name)), http.StatusBadRequest)
	default:
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusOK)
		out := flushing{w, http.NewResponseController(w)}
		out.controller.Flush()
		readLog(r.Context(), run, options, out)
	}
}

func (p *podRunner) waitingReason(container string) string {
	status := composeStatus(p.latest(), p.view(), metav1.Now())
	for _, each := range append(status.InitContainerStatuses, status.ContainerStatuses...) {
		if each.Name == container && each.State.Waiting != nil {
			return each.State.Waiting.Reason
		}
	}
	return ""
}

// logOptions reads the query of a log request.
func logOptions(query url.Values) (*v1.PodLogOptions, error) {
	options := &v1.PodLogOptions{}
	for name, flag := range map[string]*bool{"follow": &options.Follow, "previous": &options.Previous, "timestamps": &options.Timestamps} {
		if text := query.Get(name); text != "" {
			value, err := strconv.ParseBool(text)
			if err != nil {
				return nil, fmt.Errorf("%s=%q: want true or false", name, text)
			}
			*flag = value
		}
	}
	for name, number := range map[string]**int64{"tailLines": &options.TailLines, "limitBytes": &options.LimitBytes, "sinceSeconds": &options.SinceSeconds} {
		if text := query.Get(name); text != "" {
			value, err := strconv.ParseInt(text, 10, 64)
			if err != nil || value < 0 {
				return nil, fmt.Errorf("%s=%q: want a number", name, text)
			}
			*number = &value
		}
	}
	if text := query.Get("sinceTime"); text != "" {
		since, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("sinceTime=%q: want an RFC 3339 time", text)
		}
		options.SinceTime = &metav1.Time{Time: since}
	}
	return options, nil
}

// flushing sends each write at once.
type flushing struct {
	http.ResponseWriter
	controller *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if err == nil {
		err = f.controller.Flush()
	}
	return n, err
}
