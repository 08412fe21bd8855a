//go:build programs

package programs

import (
	_ "github.com/ray-project/kuberay/ray-operator"
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubelet/pkg/cri/streaming"
)
