// Program load asks admission servers, or an API server in front of them, about the objects of case files, and prints one
// JSON line: requests a second, latencies in milliseconds, how many were refused.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/yaml"
)

var plurals = map[string]string{
	"EtcdCluster": "etcdclusters", "EtcdMember": "etcdmembers", "EtcdSnapshot": "etcdsnapshots", "Etcd": "etcds",
	"BackupClass": "backupclasses", "BackupJob": "backupjobs", "Backup": "backups", "RestoreJob": "restorejobs", "Plan": "plans",
}

type question struct {
	path string
	body []byte
}

// bearer says who asks, where that matters.
type bearer struct {
	token string
	inner *http.Transport
}

func (b *bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	if b.token != "" {
		request.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.inner.RoundTrip(request)
}

func (b *bearer) CloseIdleConnections() { b.inner.CloseIdleConnections() }

func main() {
	url := flag.String("url", "", "https://host:port")
	authority := flag.String("ca", "", "PEM file of the authority to trust")
	cases := flag.String("cases", "", "folder with case files")
	connections := flag.Int("connections", 16, "how many ask at a time")
	rate := flag.Float64("rate", 0, "requests a second; as fast as they are answered where 0")
	duration := flag.Duration("duration", 5*time.Second, "how long")
	token := flag.String("token", "", "create objects at an API server with this token, without storing them, instead of asking a webhook")
	once := flag.Bool("until-answered", false, "only wait for the first answer")
	flag.Parse()
	direct := *token != ""

	pem, err := os.ReadFile(*authority)
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &bearer{token: *token, inner: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}},
		MaxIdleConnsPerHost: *connections, MaxConnsPerHost: *connections,
	}}}
	questions, err := read(*cases, direct)
	if err != nil {
		log.Fatal(err)
	}
	if *once {
		for {
			if _, err := ask(client, *url, questions[0], direct); err == nil {
				return
			}
			client.CloseIdleConnections()
			time.Sleep(2 * time.Millisecond)
		}
	}
	run(client, *url, questions, direct, *connections, *rate, *duration)
}

func run(client *http.Client, url string, questions []question, direct bool, connections int, rate float64, duration time.Duration) {
	var number, refused, failed atomic.Int64
	var latencies []time.Duration
	var mutex sync.Mutex
	var workers sync.WaitGroup
	begin := time.Now()
	for range connections {
		workers.Go(func() {
			var own []time.Duration
			for {
				at := number.Add(1) - 1
				due := time.Now()
				if rate > 0 {
					// A request that is sent late has waited since it was due.
					due = begin.Add(time.Duration(float64(at) / rate * float64(time.Second)))
					time.Sleep(time.Until(due))
				}
				if due.Sub(begin) > duration {
					break
				}
				denied, err := ask(client, url, questions[int(at)%len(questions)], direct)
				own = append(own, time.Since(due))
				if err != nil {
					failed.Add(1)
				} else if denied {
					refused.Add(1)
				}
			}
			mutex.Lock()
			latencies = append(latencies, own...)
			mutex.Unlock()
		})
	}
	workers.Wait()
	taken := time.Since(begin)
	slices.Sort(latencies)
	percentile := func(p float64) float64 {
		return float64(latencies[int(p*float64(len(latencies)-1))].Microseconds()) / 1000
	}
	fmt.Printf(`{"requests":%d,"perSecond":%.1f,"p50":%.3f,"p90":%.3f,"p99":%.3f,"max":%.3f,"refused":%d,"failed":%d}`+"\n",
		len(latencies), float64(len(latencies))/taken.Seconds(), percentile(0.5), percentile(0.9), percentile(0.99), percentile(1),
		refused.Load(), failed.Load())
}

// ask tells whether the object was refused.
func ask(client *http.Client, url string, question question, direct bool) (bool, error) {
	response, err := client.Post(url+question.path, "application/json", bytes.NewReader(question.body))
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return false, err
	}
	if direct {
		if response.StatusCode == http.StatusCreated {
			return false, nil
		}
		if response.StatusCode == http.StatusUnprocessableEntity || response.StatusCode == http.StatusForbidden {
			return true, nil
		}
		return false, fmt.Errorf("%d: %s", response.StatusCode, body)
	}
	var review struct {
		Response *struct{ Allowed bool }
	}
	if err := json.Unmarshal(body, &review); err != nil || review.Response == nil || response.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%d: %s", response.StatusCode, body)
	}
	return !review.Response.Allowed, nil
}

// read makes a question of every case in which an object is created.
func read(folder string, direct bool) ([]question, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var questions []question
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, document := range bytes.Split(text, []byte("\n---")) {
			var found struct {
				Operation, Subresource string
				Object                 map[string]any
			}
			if err := yaml.Unmarshal(document, &found); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if found.Operation != "" && found.Operation != "CREATE" || found.Subresource != "" || found.Object == nil {
				continue
			}
			question, ok := about(found.Object, direct)
			if ok {
				questions = append(questions, question)
			}
		}
	}
	if len(questions) == 0 {
		return nil, fmt.Errorf("no case in %s creates an object", folder)
	}
	return questions, nil
}

func about(object map[string]any, direct bool) (question, bool) {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	group, version, ok := strings.Cut(apiVersion, "/")
	plural, known := plurals[kind]
	metadata, _ := object["metadata"].(map[string]any)
	if !ok || !known || metadata == nil {
		return question{}, false
	}
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	if direct {
		path := "/apis/" + apiVersion
		if namespace != "" {
			metadata["namespace"] = "default"
			path += "/namespaces/default"
		}
		body, err := json.Marshal(object)
		return question{path + "/" + plural + "?dryRun=All&fieldValidation=Ignore", body}, err == nil
	}
	gvk := map[string]any{"group": group, "version": version, "kind": kind}
	gvr := map[string]any{"group": group, "version": version, "resource": plural}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": map[string]any{
			"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": gvk, "resource": gvr, "requestKind": gvk, "requestResource": gvr,
			"name": name, "namespace": namespace, "operation": "CREATE", "dryRun": false, "object": object, "oldObject": nil,
			"userInfo": map[string]any{"username": "anna", "uid": "1", "groups": []string{"system:authenticated"}},
			"options":  map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
		},
	})
	return question{"/validate?timeout=10s", body}, err == nil
}
