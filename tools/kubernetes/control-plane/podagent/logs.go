package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/logs"
	"k8s.io/klog/v2"
)

// logFile takes a container's output in the container runtimes' format: time, stream, full or partial, text.
type logFile struct {
	path string
	mu   sync.Mutex
	file *os.File
	both sync.WaitGroup
}

func createLog(path string) (*logFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(path)
	return &logFile{path: path, file: file}, err
}

// stream returns a pipe whose lines are appended under the stream's name until all its writers have closed it.
func (l *logFile) stream(name string) (*os.File, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	l.both.Go(func() {
		defer reader.Close()
		lines := bufio.NewReaderSize(reader, 16<<10)
		for {
			text, err := lines.ReadSlice('\n')
			if len(text) > 0 {
				l.write(name, text)
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
		}
	})
	return writer, nil
}

func (l *logFile) write(stream string, text []byte) {
	tag := " F "
	if text[len(text)-1] != '\n' {
		tag = " P "
	}
	line := append([]byte(time.Now().UTC().Format(time.RFC3339Nano)+" "+stream+tag), text...)
	if tag == " P " {
		line = append(line, '\n')
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file.Write(line)
}

// finish waits for the last lines.
func (l *logFile) finish() {
	l.both.Wait()
	l.file.Close()
}

// readLog writes a log to out as the options ask; followed, until the instance has ended or ctx.
func readLog(ctx context.Context, instance *instance, options *v1.PodLogOptions, out io.Writer) error {
	logger := klog.TODO().V(4)
	return logs.ReadLogs(ctx, &logger, instance.log.path, instance.id, logs.NewLogOptions(options, time.Now()), instanceStatus{instance: instance}, out, out)
}

// instanceStatus tells ReadLogs whether more lines may come.
type instanceStatus struct {
	internalapi.RuntimeService
	instance *instance
}

func (s instanceStatus) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	state := runtimeapi.ContainerState_CONTAINER_RUNNING
	if s.instance.ended() {
		state = runtimeapi.ContainerState_CONTAINER_EXITED
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{State: state}}, nil
}

// lastLines returns the end of a log as text, for termination messages.
func lastLines(instance *instance) string {
	tail, limit := int64(80), int64(2048)
	var text limitedTail
	text.limit = int(limit)
	readLog(context.Background(), instance, &v1.PodLogOptions{TailLines: &tail}, &text)
	return string(text.data)
}

// limitedTail keeps the last limit bytes written to it.
type limitedTail struct {
	limit int
	data  []byte
}

func (t *limitedTail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - t.limit; over > 0 {
		t.data = t.data[over:]
	}
	return len(p), nil
}
