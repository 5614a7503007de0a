package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const bridge = "bridge"

type request struct {
	Request uint64   `json:"request"`
	Op      string   `json:"op"`
	ID      string   `json:"id"`
	IP      net.IP   `json:"ip"`
	Path    string   `json:"path"`
	Bytes   uint64   `json:"bytes"`
	Group   int      `json:"group"`
	Unmount []string `json:"unmount"`
	Number  int      `json:"number"`
	Spec    spec     `json:"spec"`
}

type event struct {
	Event   string `json:"event"`
	Request uint64 `json:"request,omitempty"`
	ID      string `json:"id,omitempty"`
	IP      net.IP `json:"ip,omitempty"`
	Code    int    `json:"code,omitempty"`
	Signal  int    `json:"signal,omitempty"`
	Error   string `json:"error,omitempty"`
}

// A state is what a node knows.
type state struct {
	self string
	host *os.File // the host's network namespace

	mu         sync.Mutex
	networks   map[string]*os.File // by Pod
	containers map[string]*exec.Cmd
	client     *json.Encoder
}

// node serves one client until that goes away. Then it ends, and being PID 1, takes every container along.
func node(self, folder string) error {
	told, host := os.NewFile(3, "segment"), os.NewFile(4, "host network")
	for _, fd := range []int{3, 4} {
		syscall.CloseOnExec(fd)
	}
	var segment segment
	if err := json.NewDecoder(told).Decode(&segment); err != nil {
		return fmt.Errorf("the host's side did not come up: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := makeBridge(); err != nil {
		return err
	}
	listener, err := net.Listen("unix", filepath.Join(folder, "runtime.sock"))
	if err != nil {
		return err
	}
	client, err := listener.Accept()
	if err != nil {
		return err
	}
	r := &state{
		self:       self,
		host:       host,
		networks:   map[string]*os.File{},
		containers: map[string]*exec.Cmd{},
		client:     json.NewEncoder(client),
	}
	r.say(event{Event: "ready", IP: segment.Host})
	requests := bufio.NewReader(client)
	for {
		line, err := requests.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var q request
		if err := json.Unmarshal(line, &q); err != nil {
			return fmt.Errorf("not a request: %w", err)
		}
		go r.serve(q)
	}
}

func makeBridge() error {
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("make a bridge: %w", err)
	}
	if err := attach(uplink); err != nil {
		return err
	}
	return errors.Join(configure(uplink, nil), configure(bridge, nil), configure("lo", nil))
}

// attach makes an interface a port of the bridge.
func attach(name string) error {
	port, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	link, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("find the bridge: %w", err)
	}
	if err := netlink.LinkSetMaster(port, link); err != nil {
		return fmt.Errorf("attach %s to the bridge: %w", name, err)
	}
	return nil
}

func (r *state) serve(q request) {
	var err error
	switch q.Op {
	case "network":
		err = r.network(q.ID, q.IP)
	case "release":
		err = r.release(q.ID, q.Unmount)
	case "memory":
		options := fmt.Sprintf("mode=2777,gid=%d", q.Group)
		if q.Bytes > 0 {
			options += fmt.Sprintf(",size=%d", q.Bytes)
		}
		err = unix.Mount("tmpfs", q.Path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options)
	case "start":
		err = r.start(q.ID, q.Spec)
	case "signal":
		err = r.signal(q.ID, syscall.Signal(q.Number))
	default:
		err = fmt.Errorf("no operation is called %q", q.Op)
	}
	if err != nil {
		r.say(event{Event: "failed", Request: q.Request, Error: err.Error()})
		return
	}
	r.say(event{Event: "done", Request: q.Request})
	if q.Op == "start" {
		// Only now, so that nobody hears of an end before the start.
		go r.wait(q.ID)
	}
}

// network makes a Pod's network namespace: an interface eth0 on the bridge.
func (r *state) network(pod string, address net.IP) error {
	ip := address.To4()
	if ip == nil {
		return fmt.Errorf("%s is not an IPv4 address", address)
	}
	namespace, err := newNetwork()
	if err != nil {
		return err
	}
	if err := connect(namespace, ip); err != nil {
		namespace.Close()
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.networks[pod] = namespace
	return nil
}

func newNetwork() (namespace *os.File, err error) {
	made := make(chan struct{})
	go func() {
		defer close(made)
		// Never unlocked: the thread has left the node's network, and ends with this function.
		runtime.LockOSThread()
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			namespace, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		}
	}()
	<-made
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return namespace, nil
}

func connect(namespace *os.File, ip net.IP) error {
	port := fmt.Sprintf("pod-%d", ip[3])
	err := netlink.LinkAdd(&netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: port},
		PeerName:      "eth0",
		PeerNamespace: netlink.NsFd(namespace.Fd()),
		// An address that is used again has the same hardware address as before, so nobody holds a stale one.
		PeerHardwareAddr: net.HardwareAddr{0x02, 0x42, ip[0], ip[1], ip[2], ip[3]},
	})
	if err != nil {
		return fmt.Errorf("make a veth pair: %w", err)
	}
	inside, err := netlink.NewHandleAt(netns.NsHandle(namespace.Fd()))
	if err != nil {
		return fmt.Errorf("enter the Pod's network: %w", err)
	}
	defer inside.Close()
	return errors.Join(attach(port), configure(port, nil), configureAt(inside, "lo", nil), configureAt(inside, "eth0", ip))
}

func (r *state) release(pod string, unmount []string) error {
	r.mu.Lock()
	namespace := r.networks[pod]
	delete(r.networks, pod)
	r.mu.Unlock()
	if namespace != nil {
		namespace.Close()
	}
	var failed error
	for _, path := range unmount {
		failed = errors.Join(failed, unix.Unmount(path, unix.MNT_DETACH))
	}
	return failed
}

// start runs a container and returns once its command is being executed.
func (r *state) start(id string, s spec) error {
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	r.mu.Lock()
	network := r.host
	if s.Network != "" {
		network = r.networks[s.Network]
	}
	_, taken := r.containers[id]
	r.mu.Unlock()
	if network == nil || taken {
		return fmt.Errorf("no network %q, or container %q exists already", s.Network, id)
	}
	plan, give, err := os.Pipe()
	if err != nil {
		return err
	}
	failure, fail, err := os.Pipe()
	if err != nil {
		return err
	}
	defer failure.Close()
	cmd := exec.Command(r.self, "container")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{plan, network, fail}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
	}
	err = cmd.Start()
	plan.Close()
	fail.Close()
	if err != nil {
		give.Close()
		return err
	}
	err = json.NewEncoder(give).Encode(s)
	give.Close()
	// The other end is closed by a successful exec.
	if said, _ := io.ReadAll(failure); len(said) > 0 {
		err = errors.New(string(said))
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[id] = cmd
	return nil
}

func (r *state) wait(id string) {
	r.mu.Lock()
	cmd := r.containers[id]
	r.mu.Unlock()
	_ = cmd.Wait()
	r.mu.Lock()
	delete(r.containers, id)
	r.mu.Unlock()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		r.say(event{Event: "exited", ID: id, Code: 128 + int(status.Signal()), Signal: int(status.Signal())})
	default:
		r.say(event{Event: "exited", ID: id, Code: cmd.ProcessState.ExitCode()})
	}
}

// signal is no failure when the container has ended meanwhile.
func (r *state) signal(id string, number syscall.Signal) error {
	r.mu.Lock()
	cmd := r.containers[id]
	r.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(number); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (r *state) say(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A client that is gone is noticed where its requests are read.
	_ = r.client.Encode(e)
}
