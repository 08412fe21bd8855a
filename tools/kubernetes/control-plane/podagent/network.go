package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	bridgeName  = "pods"
	servicePort = "443" // where containers find the API server, on their own loopback
)

// network is the bed's network namespace with the pod bridge, and the addresses given out on it.
type network struct {
	name string
	cidr netip.Prefix

	mu   sync.Mutex
	last netip.Addr
	used map[netip.Addr]bool
}

func newNetwork(bedID string, cidr netip.Prefix) *network {
	gateway := cidr.Addr().Next()
	return &network{name: "rtebed-" + bedID, cidr: cidr, last: gateway, used: map[netip.Addr]bool{gateway: true}}
}

func (n *network) setUp() error {
	if err := runIP("netns", "add", n.name); err != nil {
		return err
	}
	gateway := netip.PrefixFrom(n.cidr.Addr().Next(), n.cidr.Bits())
	return runBatch(n.name,
		"link set lo up",
		"link add "+bridgeName+" type bridge",
		"addr add "+gateway.String()+" dev "+bridgeName,
		"link set "+bridgeName+" up",
	)
}

func (n *network) remove() { runIP("netns", "delete", n.name) }

// take reserves the next free address; addresses return to use as late as possible, as names of dead pods linger.
func (n *network) take() (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	candidate := n.last
	for range 1 << (32 - n.cidr.Bits()) {
		candidate = candidate.Next()
		if !n.cidr.Contains(candidate) || !n.cidr.Contains(candidate.Next()) {
			candidate = n.cidr.Addr()
			continue
		}
		if !n.used[candidate] {
			n.used[candidate], n.last = true, candidate
			return candidate, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no free address in %s", n.cidr)
}

func (n *network) release(address netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.used, address)
}

// link is one pod's place on the bridge.
type link struct {
	address netip.Addr
	netns   string
	veth    string
}

// attach names the network namespace of a process and joins it to the bridge.
func (n *network) attach(pid int) (link, error) {
	address, err := n.take()
	if err != nil {
		return link{}, err
	}
	bytes := address.As4()
	number := int(bytes[2])<<8 | int(bytes[3])
	l := link{address: address, netns: fmt.Sprintf("%s.%d", n.name, number), veth: fmt.Sprintf("veth%d", number)}
	err = runIP("netns", "attach", l.netns, fmt.Sprint(pid))
	if err == nil {
		err = runBatch(n.name,
			"link add "+l.veth+" type veth peer name eth0 netns "+l.netns,
			"link set "+l.veth+" master "+bridgeName+" up",
		)
	}
	if err == nil {
		err = runBatch(l.netns,
			"link set lo up",
			"addr add "+netip.PrefixFrom(address, n.cidr.Bits()).String()+" dev eth0",
			"link set eth0 up",
		)
	}
	if err != nil {
		n.detach(l)
		return link{}, err
	}
	return l, nil
}

func (n *network) detach(l link) {
	runIP("-n", n.name, "link", "delete", l.veth)
	runIP("netns", "delete", l.netns)
	n.release(l.address)
}

// dial connects to an address as a process of the pod would.
func (l link) dial(ctx context.Context, address string) (net.Conn, error) {
	var connection net.Conn
	err := l.within(func() (err error) {
		connection, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, "tcp", address)
		return err
	})
	return connection, err
}

// serveAPI listens inside the pod and splices each connection to the API server.
func (l link) serveAPI(api string) (net.Listener, error) {
	var listener net.Listener
	err := l.within(func() (err error) {
		listener, err = net.Listen("tcp4", "127.0.0.1:"+servicePort)
		return err
	})
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				server, err := net.DialTimeout("tcp", api, 10*time.Second)
				if err != nil {
					connection.Close()
					return
				}
				splice(connection, server)
			}()
		}
	}()
	return listener, nil
}

func (l link) within(work func() error) error {
	return onThread(func() error {
		file, err := os.Open("/run/netns/" + l.netns)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering %s: %w", l.netns, err)
		}
		return work()
	})
}

// onThread runs work on a thread that ends with it, so that it may enter namespaces.
func onThread(work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		result <- work()
	}()
	return <-result
}

// splice copies both ways until both sides have ended, and closes them.
func splice(a, b io.ReadWriteCloser) {
	var both sync.WaitGroup
	copyOne := func(to, from io.ReadWriteCloser) {
		io.Copy(to, from)
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		} else {
			to.Close()
		}
	}
	both.Go(func() { copyOne(a, b) })
	both.Go(func() { copyOne(b, a) })
	both.Wait()
	a.Close()
	b.Close()
}

func runIP(args ...string) error {
	return explainRun(exec.Command("ip", args...))
}

// runBatch runs several ip commands inside a network namespace with one process.
func runBatch(netns string, commands ...string) error {
	command := exec.Command("ip", "-n", netns, "-batch", "-")
	command.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	return explainRun(command)
}

func explainRun(command *exec.Cmd) error {
	output, err := command.CombinedOutput()
	if err == nil {
		return nil
	}
	if text := bytes.TrimSpace(output); len(text) > 0 {
		err = errors.New(string(text))
	}
	return fmt.Errorf("%s: %w", strings.Join(command.Args, " "), err)
}
