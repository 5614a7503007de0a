// golden-template renders a list of templates with Go's own text/template and slim-sprig, and prints what came out as
// JSON. The table that it makes is what our own renderer is held to.
package main

import (
	"encoding/json"
	"os"
	"strings"
	"text/template"

	sprig "github.com/go-task/slim-sprig/v3"
)

// application is what the API server would return for an application, as client-go decodes it.
const application = `{
  "apiVersion": "apps.cozystack.io/v1alpha1",
  "kind": "Etcd",
  "metadata": {
    "name": "etcd",
    "namespace": "tenant-root",
    "uid": "0b9c3a4e-7c1c-4f3e-9a39-2f9f6c3b1a77",
    "labels": {"team": "core", "tier": "gold", "empty": ""},
    "annotations": {"note": "a \"quoted\" <b>note</b> & more"}
  },
  "spec": {"size": "4Gi", "replicas": 3, "ratio": 0.5, "enabled": true, "off": false, "zones": ["b", "a", "b"], "none": []}
}`

var parameters = map[string]string{
	"bucket":   "etcd-backups",
	"endpoint": "https://s3.example.org:9000",
	"region":   "",
	"prefix":   "/nightly//",
	"count":    "7",
	"words":    "one,two,three",
	"umlaut":   "Größe",
	"lines":    "a\nb",
}

type result struct {
	Template string  `json:"template"`
	Output   *string `json:"output,omitempty"`
	Error    string  `json:"error,omitempty"`
}

func main() {
	var object map[string]any
	if err := json.Unmarshal([]byte(application), &object); err != nil {
		panic(err)
	}
	data := map[string]any{"Application": object, "Parameters": parameters}
	var results []result
	for _, text := range templates {
		results = append(results, render(text, data))
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	err := out.Encode(map[string]any{"application": object, "parameters": parameters, "results": results})
	if err != nil {
		panic(err)
	}
}

func render(text string, data any) (answer result) {
	answer.Template = text
	defer func() {
		if failure := recover(); failure != nil {
			answer.Error = "panic"
		}
	}()
	parsed, err := template.New("t").Funcs(sprig.TxtFuncMap()).Parse(text)
	if err != nil {
		answer.Error = "parse"
		return answer
	}
	var out strings.Builder
	if err := parsed.Execute(&out, data); err != nil {
		answer.Error = "execute"
		return answer
	}
	rendered := out.String()
	answer.Output = &rendered
	return answer
}
