// golden-values reads texts with the Go code that Kubernetes and etcd read them with, and writes one table for each
// sort of value into the directory it is given. Our own readers are held to these tables.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: golden-values DIRECTORY")
		os.Exit(2)
	}
	tables := map[string][]string{"quantity": quantities(), "duration": durations(), "version": versions()}
	for name, lines := range tables {
		file := filepath.Join(os.Args[1], name+".tsv")
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// line is one line of a table: the text as JSON, so that no byte of it is lost, then what was read.
func line(text string, columns ...any) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	fields := []string{string(quoted)}
	for _, column := range columns {
		fields = append(fields, fmt.Sprint(column))
	}
	return strings.Join(fields, "\t")
}
