// Ociarchive packs a folder as an OCI image of one layer, in the archive form that `ctr images import` reads.
//
//	ociarchive -o FILE -name REPOSITORY:TAG [-entrypoint PATH] [-cmd PATH] [-user UID:GID] [-workdir DIR] ROOT
//
// The same folder gives the same bytes: names are sorted, owners are root, times are the epoch.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

type object = map[string]any

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

var epoch = time.Unix(0, 0).UTC()

func main() {
	out := flag.String("o", "", "archive to write")
	name := flag.String("name", "", "repository:tag")
	entrypoint := flag.String("entrypoint", "", "program that always runs")
	cmd := flag.String("cmd", "", "program that runs when the Pod names none")
	user := flag.String("user", "", "uid:gid")
	workdir := flag.String("workdir", "/", "working directory")
	flag.Parse()
	if *out == "" || *name == "" || flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	config := object{"Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, "WorkingDir": *workdir}
	if *entrypoint != "" {
		config["Entrypoint"] = []string{*entrypoint}
	}
	if *cmd != "" {
		config["Cmd"] = []string{*cmd}
	}
	if *user != "" {
		config["User"] = *user
	}
	if err := write(*out, *name, flag.Arg(0), config); err != nil {
		fmt.Fprintln(os.Stderr, "ociarchive:", err)
		os.Exit(1)
	}
}

func write(out, name, root string, runConfig object) error {
	layer, err := pack(root)
	if err != nil {
		return err
	}
	config, _ := json.Marshal(object{
		"architecture": "amd64", "os": "linux", "created": epoch.Format(time.RFC3339), "config": runConfig,
		"rootfs": object{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	manifest, _ := json.Marshal(object{
		"schemaVersion": 2, "mediaType": typeManifest,
		"config": descriptor(typeConfig, config), "layers": []object{descriptor(typeLayer, layer)},
	})
	entry := descriptor(typeManifest, manifest)
	entry["platform"] = object{"architecture": "amd64", "os": "linux"}
	entry["annotations"] = object{
		"io.containerd.image.name":          name,
		"org.opencontainers.image.ref.name": name[strings.LastIndex(name, ":")+1:],
	}
	index, _ := json.Marshal(object{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []object{entry}})

	var archive bytes.Buffer
	t := tar.NewWriter(&archive)
	add := func(file string, content []byte) {
		_ = t.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(content)), ModTime: epoch})
		_, _ = t.Write(content)
	}
	add("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	add("index.json", index)
	for _, blob := range [][]byte{manifest, config, layer} {
		add("blobs/sha256/"+strings.TrimPrefix(digest(blob), "sha256:"), blob)
	}
	if err := t.Close(); err != nil {
		return err
	}
	temporary := fmt.Sprintf("%s.%d", out, os.Getpid())
	if err := os.WriteFile(temporary, archive.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, out)
}

// pack makes the layer; WalkDir goes through a folder in lexical order.
func pack(root string) ([]byte, error) {
	var layer bytes.Buffer
	t := tar.NewWriter(&layer)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		}
		header, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		header.Name, _ = filepath.Rel(root, path)
		if d.IsDir() {
			header.Name += "/"
		}
		header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
		header.ModTime, header.AccessTime, header.ChangeTime, header.Format = epoch, time.Time{}, time.Time{}, tar.FormatUSTAR
		if err := t.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = t.Write(content)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = t.Close()
	return layer.Bytes(), err
}

func descriptor(mediaType string, content []byte) object {
	return object{"mediaType": mediaType, "digest": digest(content), "size": len(content)}
}

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }
