package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
)

// What a node is told once its end of the veth pair is there.
type segment struct {
	Host net.IP `json:"host"`
}

const uplink = "uplink" // the node's end of the veth pair

// How many nodes fit on one host: the /24 networks of 198.18.0.0/15, which is set aside for tests (RFC 2544).
const nodes = 512

// host starts a node, joins it with the host's network, and waits for its end.
func host(folder string) error {
	// The parent-death signal follows the thread that starts the node.
	runtime.LockOSThread()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	network, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return err
	}
	told, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "node", self, folder)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{told, network}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a node (this needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN): %w", err)
	}
	address, err := join(cmd.Process.Pid)
	if err == nil {
		err = json.NewEncoder(tell).Encode(segment{Host: address})
	}
	if err != nil {
		_ = cmd.Process.Kill()
		return errors.Join(err, cmd.Wait())
	}
	told.Close()
	return cmd.Wait()
}

// join makes the veth pair between host and node and gives the host its address. The name of the host's end is what
// decides between several runtimes on one host: only one of them can have it.
func join(node int) (net.IP, error) {
	for try := range nodes {
		index := (node + try) % nodes
		link := &netlink.Veth{
			LinkAttrs:     netlink.LinkAttrs{Name: fmt.Sprintf("stand-in-%d", index)},
			PeerName:      uplink,
			PeerNamespace: netlink.NsPid(node),
		}
		err := netlink.LinkAdd(link)
		if errors.Is(err, syscall.EEXIST) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("make a veth pair: %w", err)
		}
		address := net.IPv4(198, byte(18+index/256), byte(index%256), 1)
		if err := configure(link.Name, address); err != nil {
			return nil, err
		}
		return address, nil
	}
	return nil, fmt.Errorf("all %d networks of 198.18.0.0/15 are in use", nodes)
}

// configure gives an interface of the current network its address, if there is one, and brings it up.
func configure(name string, address net.IP) error {
	return configureAt(&netlink.Handle{}, name, address)
}

func configureAt(network *netlink.Handle, name string, address net.IP) error {
	link, err := network.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	if address != nil {
		net := &net.IPNet{IP: address, Mask: net.CIDRMask(24, 32)}
		if err := network.AddrAdd(link, &netlink.Addr{IPNet: net}); err != nil {
			return fmt.Errorf("give %s to interface %s: %w", address, name, err)
		}
	}
	if err := network.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring interface %s up: %w", name, err)
	}
	return nil
}
