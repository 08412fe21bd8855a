package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Kinds of images.
const (
	imageHost         = "host"          // runs the command with the host's programs
	imageMissing      = "missing"       // cannot be pulled
	imagePause        = "pause"         // only waits
	imageDevicePlugin = "device-plugin" // waits, and publishes its node's devices meanwhile
)

// imageRule says what happens to images whose reference matches.
type imageRule struct {
	Match       string            `json:"match"`
	Kind        string            `json:"kind"`
	Command     []string          `json:"command"`      // entry point, for containers without a command
	Paths       map[string]string `json:"paths"`        // container path -> file of the host
	PullSeconds float64           `json:"pull_seconds"` // how long the first pull on a node takes
	Resource    string            `json:"resource"`     // what a device plugin publishes
	Registers   *bool             `json:"registers"`    // false: the device plugin never does
}

// imageRules is the content of the rules file.
type imageRules struct {
	Rules []imageRule `json:"rules"`
}

// find returns the first rule that matches; without one the image is missing.
func (r imageRules) find(image string) (imageRule, error) {
	for _, rule := range r.Rules {
		pattern, err := regexp.Compile(rule.Match)
		if err != nil {
			return imageRule{}, fmt.Errorf("image rule %q: %w", rule.Match, err)
		}
		if pattern.MatchString(image) {
			switch rule.Kind {
			case imageHost, imageMissing, imagePause, imageDevicePlugin:
				return rule, nil
			}
			return imageRule{}, fmt.Errorf("image rule %q: unknown kind %q", rule.Match, rule.Kind)
		}
	}
	return imageRule{Kind: imageMissing}, nil
}

func (r imageRule) registers() bool { return r.Registers == nil || *r.Registers }

// imageStore reads the rules anew for each question, so that they can be edited while pods run, and remembers which
// node has pulled what.
type imageStore struct {
	path string

	mu     sync.Mutex
	pulled map[string]bool
}

func newImageStore(path string) *imageStore {
	return &imageStore{path: path, pulled: map[string]bool{}}
}

func (s *imageStore) rule(image string) (imageRule, error) {
	text, err := os.ReadFile(s.path)
	if err != nil {
		return imageRule{}, err
	}
	var rules imageRules
	if err := json.Unmarshal(text, &rules); err != nil {
		return imageRule{}, fmt.Errorf("%s: %w", s.path, err)
	}
	return rules.find(image)
}

// present says whether the node has pulled the image.
func (s *imageStore) present(node, image string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pulled[node+" "+image]
}

func (s *imageStore) setPresent(node, image string, present bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulled[node+" "+image] = present
}

// repository is an image reference without tag and digest.
func repository(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		name = name[:colon]
	}
	return name
}

// imageID is a stable digest for an image that has no content: its own where the reference has one, else the hash of
// the reference.
func imageID(image string) string {
	if _, digest, found := strings.Cut(image, "@"); found {
		return repository(image) + "@" + digest
	}
	sum := sha256.Sum256([]byte(image))
	return repository(image) + "@sha256:" + hex.EncodeToString(sum[:])
}

// notFound words a failed pull as the container runtime does.
func notFound(image string) string {
	return fmt.Sprintf("rpc error: code = NotFound desc = failed to pull and unpack image %[1]q: failed to resolve reference %[1]q: %[2]s: not found", image, image)
}

// backOff is the delay before try number n (from 0) of something that failed n times: first, doubled each time, at most five minutes.
func backOff(first time.Duration, n int) time.Duration {
	const limit = 5 * time.Minute
	for ; n > 0 && first < limit; n-- {
		first *= 2
	}
	return min(first, limit)
}
