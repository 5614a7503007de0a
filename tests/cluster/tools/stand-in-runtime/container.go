package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A spec says how a container is run.
type spec struct {
	Network      string   `json:"network"` // the Pod whose network it joins; empty: the host's
	Root         string   `json:"root"`    // a folder that becomes /; empty: the host's files, with the mounts over them
	Mounts       []mount  `json:"mounts"`  // in order
	ReadOnlyRoot bool     `json:"readOnlyRoot"`
	Hostname     string   `json:"hostname"` // empty: the host's
	Argv         []string `json:"argv"`
	Env          []string `json:"env"` // all of it
	Dir          string   `json:"dir"`
	UID          int      `json:"uid"`
	GID          int      `json:"gid"`
	Groups       []int    `json:"groups"`
	NoNewPrivs   bool     `json:"noNewPrivs"`
	Log          string   `json:"log"` // where standard output and standard error are appended
}

// A mount makes a file or folder of the host appear in the container.
type mount struct {
	From     string `json:"from"`
	To       string `json:"to"`
	ReadOnly bool   `json:"readOnly"`
}

var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// container is the first life of a container's process: it has new process, mount, host name and IPC namespaces
// already, does the rest, and becomes the container's command. A failure is told through descriptor 5.
func container() error {
	runtime.LockOSThread() // a network namespace is a thread's; the thread that executes the command decides
	for _, fd := range []int{3, 4, 5} {
		syscall.CloseOnExec(fd)
	}
	fail := os.NewFile(5, "failure")
	var s spec
	err := json.NewDecoder(os.NewFile(3, "spec")).Decode(&s)
	if err == nil {
		err = become(s)
	}
	fmt.Fprint(fail, err)
	return err
}

// become does not return unless it fails.
func become(s spec) error {
	syscall.Umask(0o022)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if s.Root != "" {
		for _, device := range devices {
			s.Mounts = append(s.Mounts, mount{From: device, To: device})
		}
		if err := bind(s.Root, s.Root, false); err != nil {
			return err
		}
	}
	for _, m := range s.Mounts {
		if err := bind(m.From, filepath.Join(s.Root, m.To), m.ReadOnly); err != nil {
			return err
		}
	}
	proc := filepath.Join(s.Root, "/proc")
	if err := os.MkdirAll(proc, 0o555); err != nil {
		return err
	}
	if err := unix.Mount("proc", proc, "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if s.Root != "" {
		if err := enter(s.Root, s.ReadOnlyRoot); err != nil {
			return err
		}
	}
	if err := unix.Setns(4, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("join the Pod's network: %w", err)
	}
	if s.Hostname != "" {
		if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
			return fmt.Errorf("set the host name: %w", err)
		}
	}
	if err := os.Chdir(s.Dir); err != nil {
		return err
	}
	if err := drop(s); err != nil {
		return err
	}
	return run(s)
}

// bind mounts a file or folder, making the place where it goes.
func bind(from, to string, readOnly bool) error {
	about, err := os.Stat(from)
	if err != nil {
		return err
	}
	if about.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
		var file *os.File
		if file, err = os.OpenFile(to, os.O_CREATE, 0o644); err == nil {
			err = file.Close()
		}
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", from, to, err)
	}
	if readOnly {
		return protect(to)
	}
	return nil
}

func protect(path string) error {
	if err := unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// enter makes a folder the root and lets go of the old one with all of its mounts.
func enter(root string, readOnly bool) error {
	if readOnly {
		if err := protect(root); err != nil {
			return err
		}
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	// The old root ends up on top of the new one, and goes at once.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("make %s the root: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the old root: %w", err)
	}
	return os.Chdir("/")
}

// drop gives up what the container's user does not have.
func drop(s spec) error {
	if s.NoNewPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("refuse new privileges: %w", err)
		}
	}
	// All threads, by means of the syscall package.
	if err := syscall.Setgroups(s.Groups); err != nil {
		return fmt.Errorf("set the groups %v: %w", s.Groups, err)
	}
	if err := syscall.Setresgid(s.GID, s.GID, s.GID); err != nil {
		return fmt.Errorf("set the group %d: %w", s.GID, err)
	}
	if err := syscall.Setresuid(s.UID, s.UID, s.UID); err != nil {
		return fmt.Errorf("set the user %d: %w", s.UID, err)
	}
	return nil
}

func run(s spec) error {
	if len(s.Argv) == 0 {
		return fmt.Errorf("no command")
	}
	for _, variable := range s.Env {
		if path, found := strings.CutPrefix(variable, "PATH="); found {
			os.Setenv("PATH", path)
		}
	}
	program, err := exec.LookPath(s.Argv[0])
	if err != nil {
		return err
	}
	if err := syscall.Exec(program, s.Argv, s.Env); err != nil {
		return fmt.Errorf("execute %s: %w", program, err)
	}
	return nil
}
