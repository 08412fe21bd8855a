package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// tally counts equal probe results in a row against the probe's thresholds.
type tally struct {
	success, failure int32
	last             bool
	run              int32
}

func newTally(probe *v1.Probe) *tally {
	return &tally{success: max(probe.SuccessThreshold, 1), failure: max(probe.FailureThreshold, 1)}
}

// observe says whether a result has now been seen often enough in a row to count.
func (t *tally) observe(ok bool) (counts bool) {
	if t.run == 0 || ok != t.last {
		t.last, t.run = ok, 0
	}
	t.run++
	if ok {
		return t.run >= t.success
	}
	return t.run >= t.failure
}

// runProbes carries the instance from started to ready, and watches it while it lives.
func (c *container) runProbes(ctx context.Context, run *instance) {
	if probe := c.spec.StartupProbe; probe != nil {
		started := false
		c.watch(ctx, run, "Startup", probe, func(ok bool) bool {
			started = ok
			if !ok {
				run.fail(fmt.Sprintf("Container %s failed startup probe, will be restarted", c.spec.Name))
			}
			return false
		})
		if !started {
			return
		}
	}
	c.change(func(s *v1.ContainerStatus) {
		if s.State.Running != nil {
			yes := true
			s.Started, s.Ready = &yes, c.spec.ReadinessProbe == nil
		}
		if !isClosed(c.up) {
			close(c.up)
		}
	})
	var probes sync.WaitGroup
	if probe := c.spec.ReadinessProbe; probe != nil {
		probes.Go(func() {
			c.watch(ctx, run, "Readiness", probe, func(ok bool) bool {
				c.setReady(run, ok)
				return true
			})
		})
	}
	if probe := c.spec.LivenessProbe; probe != nil {
		probes.Go(func() {
			c.watch(ctx, run, "Liveness", probe, func(ok bool) bool {
				if !ok {
					run.fail(fmt.Sprintf("Container %s failed liveness probe, will be restarted", c.spec.Name))
				}
				return ok
			})
		})
	}
	probes.Wait()
}

func (c *container) setReady(run *instance, ready bool) {
	c.pod.mu.Lock()
	differs := c.status.Ready != ready && c.current == run && c.status.State.Running != nil
	if differs {
		c.status.Ready = ready
	}
	c.pod.mu.Unlock()
	if differs {
		c.pod.changed()
	}
}

// watch probes by the probe's period and calls on with each result that counts, until on says false or ctx ends.
func (c *container) watch(ctx context.Context, run *instance, kind string, probe *v1.Probe, on func(ok bool) bool) {
	if !sleep(ctx, time.Duration(probe.InitialDelaySeconds)*time.Second) {
		return
	}
	results := newTally(probe)
	ticker := time.NewTicker(time.Duration(max(probe.PeriodSeconds, 1)) * time.Second)
	defer ticker.Stop()
	for {
		err := c.check(ctx, run, probe)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.event(v1.EventTypeWarning, "Unhealthy", "%s probe failed: %v", kind, err)
		}
		if results.observe(err == nil) && !on(err == nil) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// check probes once.
func (c *container) check(ctx context.Context, run *instance, probe *v1.Probe) error {
	timeout := time.Duration(max(probe.TimeoutSeconds, 1)) * time.Second
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch {
	case probe.Exec != nil:
		output, err := run.output(limited, probe.Exec.Command)
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("command timed out: %q timed out after %s", strings.Join(probe.Exec.Command, " "), timeout)
		}
		if err != nil && output != "" {
			return errors.New(strings.TrimRight(output, "\n"))
		}
		return err
	case probe.HTTPGet != nil:
		return c.get(limited, probe.HTTPGet)
	case probe.TCPSocket != nil:
		return c.connect(limited, probe.TCPSocket.Host, probe.TCPSocket.Port)
	case probe.GRPC != nil:
		return c.connect(limited, "", intstr.FromInt32(probe.GRPC.Port))
	}
	return nil
}

// hook runs a postStart or preStop handler.
func (c *container) hook(ctx context.Context, run *instance, handler *v1.LifecycleHandler) error {
	switch {
	case handler.Exec != nil:
		output, err := run.output(ctx, handler.Exec.Command)
		if err != nil && output != "" {
			return fmt.Errorf("%w: %s", err, strings.TrimSpace(output))
		}
		return err
	case handler.HTTPGet != nil:
		return c.get(ctx, handler.HTTPGet)
	case handler.TCPSocket != nil:
		return c.connect(ctx, handler.TCPSocket.Host, handler.TCPSocket.Port)
	case handler.Sleep != nil:
		sleep(ctx, time.Duration(handler.Sleep.Seconds)*time.Second)
	}
	return nil
}

func (c *container) get(ctx context.Context, action *v1.HTTPGetAction) error {
	address, err := c.address(action.Host, action.Port)
	if err != nil {
		return err
	}
	scheme := strings.ToLower(string(action.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/"+strings.TrimPrefix(action.Path, "/"), nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "kube-probe/1.34")
	for _, header := range action.HTTPHeaders {
		if http.CanonicalHeaderKey(header.Name) == "Host" {
			request.Host = header.Value
		} else {
			request.Header.Add(header.Name, header.Value)
		}
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DialContext:       func(ctx context.Context, _, address string) (net.Conn, error) { return c.pod.dial(ctx, address) },
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("Get %q: %w", request.URL, err)
	}
	defer response.Body.Close()
	io.Copy(io.Discard, io.LimitReader(response.Body, 10<<10))
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", response.StatusCode)
	}
	return nil
}

func (c *container) connect(ctx context.Context, host string, port intstr.IntOrString) error {
	address, err := c.address(host, port)
	if err != nil {
		return err
	}
	connection, err := c.pod.dial(ctx, address)
	if err != nil {
		return err
	}
	return connection.Close()
}

// address is where a probe goes: the pod's address unless a host is named, and a number or the name of a port.
func (c *container) address(host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = c.pod.sandboxIP()
	}
	number, err := portNumber(c.spec, port)
	return net.JoinHostPort(host, strconv.Itoa(number)), err
}

func portNumber(spec v1.Container, port intstr.IntOrString) (int, error) {
	if port.Type == intstr.Int {
		return port.IntValue(), nil
	}
	for _, each := range spec.Ports {
		if each.Name == port.StrVal {
			return int(each.ContainerPort), nil
		}
	}
	if number, err := strconv.Atoi(port.StrVal); err == nil {
		return number, nil
	}
	return 0, fmt.Errorf("couldn't find port %q in container %s", port.StrVal, spec.Name)
}

func isClosed(channel chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}
