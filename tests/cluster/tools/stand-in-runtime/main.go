// Stand-in-runtime is what the stand-in kubelet has instead of a container runtime: it gives every Pod a network of its
// own and runs every container as a process with its own root, mounts, process IDs and host name. It has no images, no
// cgroups and no limits on memory or CPU.
//
//	stand-in-runtime FOLDER
//
// It makes a node: a process (PID 1 of new process, mount and network namespaces) that holds a bridge, joined with the
// host by a veth pair, and listens on FOLDER/runtime.sock. Host and Pods share one network segment, so that they reach
// each other directly; nothing else can be reached. One client connects and sends requests, one JSON object a line:
//
//	{"request": 1, "op": "network", "id": "POD", "ip": "198.18.0.2"}           a network namespace with this address
//	{"request": 2, "op": "release", "id": "POD", "unmount": ["/path"]}         the end of it, and of memory volumes
//	{"request": 3, "op": "memory",  "path": "/path", "bytes": 1, "group": 1}   a memory volume; 0 bytes: no limit
//	{"request": 4, "op": "start",   "id": "CONTAINER", "spec": {...}}          see spec; the id may not be in use
//	{"request": 5, "op": "signal",  "id": "CONTAINER", "number": 15}
//
// and gets answers, of which the first one and the ends of containers come by themselves:
//
//	{"event": "ready", "ip": "198.18.0.1"}                       the host's address on the segment, a /24
//	{"event": "done", "request": 4}
//	{"event": "failed", "request": 4, "error": "..."}
//	{"event": "exited", "id": "CONTAINER", "code": 0, "signal": 0}
//
// All of it ends with the first process: namespaces take processes, mounts, bridge and veth pair along.
package main

import (
	"fmt"
	"os"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "node":
		err = node(os.Args[2], os.Args[3])
	case len(os.Args) == 2 && os.Args[1] == "container":
		err = container()
	case len(os.Args) == 2:
		err = host(os.Args[1])
	default:
		err = fmt.Errorf("usage: stand-in-runtime FOLDER")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand-in-runtime:", err)
		os.Exit(1)
	}
}
