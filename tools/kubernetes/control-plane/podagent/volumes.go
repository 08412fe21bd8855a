package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/fieldpath"
)

// volume is a prepared volume: where it lies in the sandbox's mount namespace, and how it comes to be there.
type volume struct {
	path     string
	readOnly bool
	memory   *tmpfs             // mounted by the sandbox, where set
	files    map[string]content // written into memory, and again when they change
}

// content is one file of a secret, configMap, projected or downwardAPI volume.
type content struct {
	data []byte
	mode os.FileMode
}

// mountError is a volume that cannot be set up yet; events report it as FailedMount.
type mountError struct {
	volume string
	err    error
}

func (e *mountError) Error() string {
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.volume, e.err)
}

// volumeBuilder prepares the volumes of one pod.
type volumeBuilder struct {
	agent  *agent
	pod    *v1.Pod
	dir    string
	tokens map[string]boundToken
}

// boundToken is a service account token and when to ask for the next.
type boundToken struct {
	token string
	renew time.Time
}

// build resolves every volume of the pod; nothing is mounted or written but plain directories.
func (b *volumeBuilder) build(ctx context.Context) (map[string]volume, error) {
	volumes := map[string]volume{}
	for _, each := range b.pod.Spec.Volumes {
		built, err := b.one(ctx, each)
		if err != nil {
			return nil, &mountError{volume: each.Name, err: err}
		}
		volumes[each.Name] = built
	}
	return volumes, nil
}

func (b *volumeBuilder) one(ctx context.Context, source v1.Volume) (volume, error) {
	path := filepath.Join(b.dir, source.Name)
	switch {
	case source.EmptyDir != nil:
		return emptyDir(path, source.EmptyDir)
	case source.HostPath != nil:
		return b.hostPath(source.HostPath)
	case source.PersistentVolumeClaim != nil:
		found, err := b.claimed(ctx, source.PersistentVolumeClaim.ClaimName)
		found.readOnly = source.PersistentVolumeClaim.ReadOnly
		return found, err
	case source.Ephemeral != nil:
		return b.claimed(ctx, b.pod.Name+"-"+source.Name)
	}
	files, err := b.files(ctx, source)
	if err != nil {
		return volume{}, err
	}
	memory := &tmpfs{Path: path, Mode: 0o755}
	return volume{path: path, readOnly: true, memory: memory, files: files}, os.MkdirAll(path, 0o755)
}

func emptyDir(path string, source *v1.EmptyDirVolumeSource) (volume, error) {
	if err := os.MkdirAll(path, 0o777); err != nil {
		return volume{}, err
	}
	if err := os.Chmod(path, 0o777); err != nil {
		return volume{}, err
	}
	made := volume{path: path}
	if limit := source.SizeLimit; limit != nil && !limit.IsZero() {
		made.memory = &tmpfs{Path: path, Size: limit.Value(), Mode: 0o777}
	} else if source.Medium != v1.StorageMediumDefault {
		made.memory = &tmpfs{Path: path, Mode: 0o777}
	}
	return made, nil
}

// systemPaths are never made on the machine: where a pod asks for a missing directory below one, its node gets one of
// its own in the state directory.
var systemPaths = []string{"/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sys", "/usr", "/var"}

// hostPath checks a path of the machine, and makes it where it is missing and its type allows.
func (b *volumeBuilder) hostPath(source *v1.HostPathVolumeSource) (volume, error) {
	kind, path := v1.HostPathUnset, filepath.Clean(source.Path)
	if source.Type != nil {
		kind = *source.Type
	}
	below := func(dir string) bool { return strings.HasPrefix(path, dir+"/") }
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) && slices.ContainsFunc(systemPaths, below) {
		path = filepath.Join(b.agent.stateDir, "nodes", b.pod.Spec.NodeName, path)
	}
	if err := makeMissing(path, kind); err != nil {
		return volume{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return volume{}, fmt.Errorf("hostPath type check failed: %w", err)
	}
	matches := map[v1.HostPathType]bool{
		v1.HostPathUnset:             true,
		v1.HostPathDirectoryOrCreate: info.IsDir(),
		v1.HostPathDirectory:         info.IsDir(),
		v1.HostPathFileOrCreate:      info.Mode().IsRegular(),
		v1.HostPathFile:              info.Mode().IsRegular(),
		v1.HostPathSocket:            info.Mode()&os.ModeSocket != 0,
		v1.HostPathCharDev:           info.Mode()&os.ModeCharDevice != 0,
		v1.HostPathBlockDev:          info.Mode()&os.ModeDevice != 0 && info.Mode()&os.ModeCharDevice == 0,
	}
	if !matches[kind] {
		return volume{}, fmt.Errorf("hostPath type check failed: %s is not a %s", source.Path, kind)
	}
	return volume{path: path}, nil
}

// makeMissing makes a directory or file that its hostPath type allows to be made.
func makeMissing(path string, kind v1.HostPathType) error {
	_, err := os.Stat(path)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	switch kind {
	case v1.HostPathUnset, v1.HostPathDirectoryOrCreate:
		return os.MkdirAll(path, 0o755)
	case v1.HostPathFileOrCreate:
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, nil, 0o644)
	}
	return nil
}

// claimed finds the directory behind a claim.
func (b *volumeBuilder) claimed(ctx context.Context, name string) (volume, error) {
	core := b.agent.client.CoreV1()
	claim, err := core.PersistentVolumeClaims(b.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return volume{}, err
	}
	if claim.Status.Phase != v1.ClaimBound {
		return volume{}, fmt.Errorf("persistentvolumeclaim %q is %s, not Bound", name, claim.Status.Phase)
	}
	bound, err := core.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return volume{}, err
	}
	switch {
	case bound.Spec.HostPath != nil:
		return b.hostPath(bound.Spec.HostPath)
	case bound.Spec.Local != nil:
		_, err := os.Stat(bound.Spec.Local.Path)
		return volume{path: bound.Spec.Local.Path}, err
	}
	return volume{}, fmt.Errorf("persistentvolume %q: the bed mounts only hostPath and local volumes", bound.Name)
}

// files reads what a volume of files shall hold now.
func (b *volumeBuilder) files(ctx context.Context, source v1.Volume) (map[string]content, error) {
	files := map[string]content{}
	switch {
	case source.Secret != nil:
		s := source.Secret
		return files, b.secret(ctx, files, s.SecretName, s.Items, s.DefaultMode, s.Optional)
	case source.ConfigMap != nil:
		c := source.ConfigMap
		return files, b.configMap(ctx, files, c.Name, c.Items, c.DefaultMode, c.Optional)
	case source.DownwardAPI != nil:
		return files, b.downward(files, source.DownwardAPI.Items, source.DownwardAPI.DefaultMode)
	case source.Projected != nil:
		mode := source.Projected.DefaultMode
		for _, part := range source.Projected.Sources {
			var err error
			switch {
			case part.Secret != nil:
				err = b.secret(ctx, files, part.Secret.Name, part.Secret.Items, mode, part.Secret.Optional)
			case part.ConfigMap != nil:
				err = b.configMap(ctx, files, part.ConfigMap.Name, part.ConfigMap.Items, mode, part.ConfigMap.Optional)
			case part.DownwardAPI != nil:
				err = b.downward(files, part.DownwardAPI.Items, mode)
			case part.ServiceAccountToken != nil:
				err = b.token(ctx, files, source.Name, part.ServiceAccountToken, mode)
			default:
				err = errors.New("the bed does not know this kind of projected source")
			}
			if err != nil {
				return nil, err
			}
		}
		return files, nil
	}
	return nil, errors.New("the bed does not know this kind of volume")
}

func (b *volumeBuilder) secret(ctx context.Context, files map[string]content, name string, items []v1.KeyToPath, mode *int32, optional *bool) error {
	secret, err := b.agent.client.CoreV1().Secrets(b.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return forgive(shortNotFound(err, "secret", name), optional)
	}
	return choose(files, secret.Data, items, mode, optional, fmt.Sprintf("secret %q", name))
}

func (b *volumeBuilder) configMap(ctx context.Context, files map[string]content, name string, items []v1.KeyToPath, mode *int32, optional *bool) error {
	config, err := b.agent.client.CoreV1().ConfigMaps(b.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return forgive(shortNotFound(err, "configmap", name), optional)
	}
	data := maps.Clone(config.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, text := range config.Data {
		data[key] = []byte(text)
	}
	return choose(files, data, items, mode, optional, fmt.Sprintf("configmap %q", name))
}

func (b *volumeBuilder) downward(files map[string]content, items []v1.DownwardAPIVolumeFile, mode *int32) error {
	for _, item := range items {
		var text string
		var err error
		switch {
		case item.FieldRef != nil:
			text, err = fieldpath.ExtractFieldPathAsString(b.pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			text, err = resourceField(b.pod, item.ResourceFieldRef, "", b.agent.allocatable(b.pod.Spec.NodeName))
		}
		if err != nil {
			return err
		}
		files[item.Path] = content{data: []byte(text), mode: fileMode(item.Mode, mode)}
	}
	return nil
}

// token asks for a service account token, and for a new one when four fifths of the last one's life are over.
func (b *volumeBuilder) token(ctx context.Context, files map[string]content, volume string, source *v1.ServiceAccountTokenProjection, mode *int32) error {
	key := volume + "/" + source.Path
	held := b.tokens[key]
	if held.token == "" || time.Now().After(held.renew) {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: source.ExpirationSeconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: b.pod.Name, UID: b.pod.UID},
		}}
		if source.Audience != "" {
			request.Spec.Audiences = []string{source.Audience}
		}
		account := b.pod.Spec.ServiceAccountName
		answer, err := b.agent.client.CoreV1().ServiceAccounts(b.pod.Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("failed to fetch token: %w", err)
		}
		life := time.Until(answer.Status.ExpirationTimestamp.Time)
		held = boundToken{token: answer.Status.Token, renew: time.Now().Add(life * 4 / 5)}
		b.tokens[key] = held
	}
	files[source.Path] = content{data: []byte(held.token), mode: fileMode(nil, mode)}
	return nil
}

func forgive(err error, optional *bool) error {
	if optional != nil && *optional && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// choose takes the named items of an object, or all of it.
func choose(files map[string]content, data map[string][]byte, items []v1.KeyToPath, mode *int32, optional *bool, what string) error {
	if len(items) == 0 {
		for key, value := range data {
			files[key] = content{data: value, mode: fileMode(nil, mode)}
		}
		return nil
	}
	for _, item := range items {
		value, found := data[item.Key]
		if !found {
			if optional != nil && *optional {
				continue
			}
			return fmt.Errorf("references non-existent %s key: %s", what, item.Key)
		}
		files[item.Path] = content{data: value, mode: fileMode(item.Mode, mode)}
	}
	return nil
}

func fileMode(own, common *int32) os.FileMode {
	switch {
	case own != nil:
		return os.FileMode(*own)
	case common != nil:
		return os.FileMode(*common)
	}
	return 0o644
}

// writeFiles makes a directory hold exactly these files. All change at one moment: each name leads through the link
// ..data into a directory of that version.
func writeFiles(dir string, files map[string]content) error {
	version, err := os.MkdirTemp(dir, "..version-")
	if err != nil {
		return err
	}
	if err := os.Chmod(version, 0o755); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(version, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, files[name].data, files[name].mode); err != nil {
			return err
		}
		if err := os.Chmod(file, files[name].mode); err != nil {
			return err
		}
		names[strings.Split(name, "/")[0]] = true
	}
	current, link := filepath.Join(dir, "..data"), filepath.Join(dir, "..data_new")
	old, _ := os.Readlink(current)
	if err := os.Symlink(filepath.Base(version), link); err != nil {
		return err
	}
	if err := os.Rename(link, current); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "..") && !names[entry.Name()] {
			os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
	for name := range names {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if old != "" {
		return os.RemoveAll(filepath.Join(dir, old))
	}
	return nil
}

// sameFiles says whether two versions of a volume of files are equal.
func sameFiles(a, b map[string]content) bool {
	return maps.EqualFunc(a, b, func(x, y content) bool { return x.mode == y.mode && string(x.data) == string(y.data) })
}

// mountsOf lists a container's mounts. subPathExpr is expanded with the container's environment.
func mountsOf(container v1.Container, volumes map[string]volume, env []string) ([]bindMount, error) {
	var mounts []bindMount
	for _, mount := range container.VolumeMounts {
		source, found := volumes[mount.Name]
		if !found {
			return nil, fmt.Errorf("volume mount %q names no volume", mount.Name)
		}
		subPath := mount.SubPath
		if mount.SubPathExpr != "" {
			subPath = expand(mount.SubPathExpr, env)
		}
		if strings.HasPrefix(subPath, "/") || slices.Contains(strings.Split(subPath, "/"), "..") {
			return nil, fmt.Errorf("subPath %q must stay inside volume %q", subPath, mount.Name)
		}
		mounts = append(mounts, bindMount{
			Source: source.path, SubPath: subPath, Target: mount.MountPath, ReadOnly: mount.ReadOnly || source.readOnly,
		})
	}
	return mounts, nil
}
