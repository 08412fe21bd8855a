// Command podagent is the kubelet of the test bed: it runs the pods bound to the bed's nodes as processes of this
// machine, each pod in namespaces of its own, and answers the API server's exec, log and port-forward requests.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// options are the command line's.
type options struct {
	kubeconfig    string
	stateDir      string
	bedID         string
	podCIDR       netip.Prefix
	listen        string
	containerPath string
	images        string
	api           string
}

// The main thread keeps the machine's own namespaces: threads that enter a pod's are thrown away, and it cannot be.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case sandboxCommand:
			sandboxInit()
		case containerStart:
			startContainer()
		case containerCommand:
			containerInit()
		}
	}
	opts, err := parseOptions()
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		err = run(ctx, opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "podagent:", err)
		os.Exit(1)
	}
}

func parseOptions() (options, error) {
	var opts options
	var cidr string
	flag.StringVar(&opts.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` of an administrator")
	flag.StringVar(&opts.stateDir, "state-dir", "", "`DIR` for logs, volumes and the state of running pods")
	flag.StringVar(&opts.bedID, "bed-id", "", "`ID` that keeps the names of several beds apart")
	flag.StringVar(&cidr, "pod-cidr", "10.64.0.0/16", "IPv4 range of the pods")
	flag.StringVar(&opts.listen, "listen", "127.0.0.1:0", "`ADDRESS` of the kubelet endpoint")
	flag.StringVar(&opts.containerPath, "container-path", "/usr/local/bin:/usr/bin:/bin", "PATH inside containers")
	flag.StringVar(&opts.images, "images", "", "JSON `FILE` with the image rules")
	flag.StringVar(&opts.api, "api", "", "`ADDRESS` of the API server that pods are spliced to")
	flag.Parse()
	for _, name := range []string{"kubeconfig", "state-dir", "bed-id", "images", "api"} {
		if flag.Lookup(name).Value.String() == "" {
			return opts, fmt.Errorf("--%s is missing", name)
		}
	}
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil || !prefix.Addr().Is4() || prefix.Bits() > 28 {
		return opts, fmt.Errorf("--pod-cidr %q: want an IPv4 range of at least 16 addresses", cidr)
	}
	opts.podCIDR = prefix.Masked()
	opts.stateDir, err = filepath.Abs(opts.stateDir)
	return opts, err
}

func run(ctx context.Context, opts options) error {
	// Pods must not hold open what the agent's own parent left open.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	if err := os.MkdirAll(opts.stateDir, 0o755); err != nil {
		return err
	}
	lock, err := lockDirectory(opts.stateDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	listener, err := net.Listen("tcp", opts.listen)
	if err != nil {
		return err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := replaceFile(filepath.Join(opts.stateDir, "kubelet-port"), []byte(strconv.Itoa(port)+"\n"), 0o644); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "podagent"
	config.QPS, config.Burst = 200, 400
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	agent := newAgent(opts, client)
	if err := agent.clearLeftovers(); err != nil {
		return err
	}
	if err := agent.network.setUp(); err != nil {
		return err
	}
	defer agent.network.remove()
	server, err := newKubeletServer(agent)
	if err != nil {
		return err
	}
	go server.ServeTLS(listener, "", "")
	defer server.Close()

	slog.Info("podagent is up", "bed", opts.bedID, "kubelet", listener.Addr().String())
	agent.run(ctx)
	agent.stopAll()
	return nil
}

// lockDirectory makes this agent the only one of its state directory until the file is closed.
func lockDirectory(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("another podagent works in %s", dir)
	}
	return file, nil
}

// replaceFile writes a file so that readers see the old or the new text, never a part.
func replaceFile(path string, data []byte, mode os.FileMode) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, data, mode); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
