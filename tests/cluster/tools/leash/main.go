// Leash starts the daemons of one test bed and sees to it that they do not outlive whoever asked for them.
//
// It reads requests, one JSON object a line, from its standard input:
//
//	{"start": {"name": "etcd", "argv": ["/bin/etcd"], "env": ["K=V"], "dir": "/", "log": "/path"}}
//	{"signal": {"name": "etcd", "number": 9}}
//	{"bye": true}
//
// and answers on its standard output, in order of events:
//
//	{"event": "started", "name": "etcd", "pid": 4711}
//	{"event": "failed",  "name": "etcd", "error": "..."}
//	{"event": "exited",  "name": "etcd", "pid": 4711, "status": "signal: killed"}
//
// When its input ends, for whatever reason (closed, or the process at the other end was killed), it kills all that it
// started, runs the command given with -then, removes the folder given with -remove, and ends. Where there was no bye, the
// folder's logs are kept first, in the folder given with -keep. Should leash itself be killed, the kernel kills the
// daemons; the folder then stays until somebody finds that nobody holds its lock.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

type request struct {
	Start *struct {
		Name string   `json:"name"`
		Argv []string `json:"argv"`
		Env  []string `json:"env"`
		Dir  string   `json:"dir"`
		Log  string   `json:"log"`
	} `json:"start"`
	Signal *struct {
		Name   string `json:"name"`
		Number int    `json:"number"`
	} `json:"signal"`
	Bye bool `json:"bye"`
}

type event struct {
	Event  string `json:"event"`
	Name   string `json:"name"`
	Pid    int    `json:"pid,omitempty"`
	Status string `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
}

const prSetChildSubreaper = 36

// The parent-death signal follows the thread that started a child, so every start happens on the main thread.
func init() { runtime.LockOSThread() }

func main() {
	remove := flag.String("remove", "", "folder to lock while running and to remove at the end")
	then := flag.String("then", "", "program to run at the end, before the folder is removed")
	keep := flag.String("keep", "", "folder to put the logs in when there was no bye; what it held is gone then")
	flag.Parse()

	// A terminal's interrupt reaches the whole group; the end of the input is what counts here.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		fatal("become the reaper of orphans", errno)
	}
	if *remove != "" {
		if err := lock(filepath.Join(*remove, ".lock")); err != nil {
			fatal("lock "+*remove, err)
		}
	}

	requests := make(chan request)
	go read(requests)
	daemons := &daemons{pids: map[string]int{}}
	bye := false
loop:
	for {
		select {
		case r, more := <-requests:
			switch {
			case !more:
				break loop
			case r.Start != nil:
				daemons.start(r.Start.Name, r.Start.Argv, r.Start.Env, r.Start.Dir, r.Start.Log)
			case r.Bye:
				bye = true
			case r.Signal != nil:
				daemons.signal(r.Signal.Name, syscall.Signal(r.Signal.Number))
			}
		case <-ended:
			break loop
		}
	}

	daemons.end()
	if *keep != "" && !bye {
		_ = os.RemoveAll(*keep)
		if err := os.CopyFS(*keep, os.DirFS(filepath.Join(*remove, "logs"))); err != nil {
			fmt.Fprintln(os.Stderr, "leash: keep the logs:", err)
		}
	}
	if *then != "" {
		cmd := exec.Command("/bin/sh", "-c", *then)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "leash:", *then, err)
			defer os.Exit(1)
		}
	}
	if *remove != "" {
		if err := os.RemoveAll(*remove); err != nil {
			fatal("remove "+*remove, err)
		}
	}
}

func read(requests chan<- request) {
	defer close(requests)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, "leash: not a request:", err)
			continue
		}
		requests <- r
	}
}

// lock takes the lock and keeps it until this process is gone: the descriptor is never closed.
func lock(path string) error {
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
}

type daemons struct {
	mu    sync.Mutex
	pids  map[string]int
	ended bool
	alive sync.WaitGroup
}

func (d *daemons) start(name string, argv, env []string, dir, log string) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		say(event{Event: "failed", Name: name, Error: err.Error()})
		return
	}
	defer out.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		say(event{Event: "failed", Name: name, Error: err.Error()})
		return
	}
	d.mu.Lock()
	d.pids[name] = cmd.Process.Pid
	d.mu.Unlock()
	say(event{Event: "started", Name: name, Pid: cmd.Process.Pid})
	d.alive.Add(1)
	go func() {
		defer d.alive.Done()
		_ = cmd.Wait()
		d.mu.Lock()
		if d.pids[name] == cmd.Process.Pid {
			delete(d.pids, name)
		}
		ended := d.ended
		d.mu.Unlock()
		if !ended {
			say(event{Event: "exited", Name: name, Pid: cmd.Process.Pid, Status: cmd.ProcessState.String()})
		}
	}()
}

func (d *daemons) signal(name string, number syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if pid, ok := d.pids[name]; ok {
		_ = syscall.Kill(-pid, number)
	}
}

// end kills every daemon with its process group, and then whatever those left behind.
func (d *daemons) end() {
	d.mu.Lock()
	d.ended = true
	for _, pid := range d.pids {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	d.mu.Unlock()
	d.alive.Wait()
	for {
		for _, pid := range children() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil && err != syscall.EINTR {
			return // no child is left
		}
	}
}

func children() (pids []int) {
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

var stdout sync.Mutex

func say(e event) {
	stdout.Lock()
	defer stdout.Unlock()
	line, _ := json.Marshal(e)
	_, _ = os.Stdout.Write(append(line, '\n'))
}

func fatal(what string, err error) {
	fmt.Fprintf(os.Stderr, "leash: %s: %v\n", what, err)
	os.Exit(1)
}
