// Renders the chart with the template engine and the functions that Helm uses, to compare test/deploy/template.ts with.
// Arguments: a JSON file with Values, Chart and Release, and the templates. Prints a JSON object: text by file.
package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	check(err)
	var root map[string]interface{}
	check(json.Unmarshal(text, &root))
	all := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	functions["include"] = func(name string, dot interface{}) (string, error) {
		var out bytes.Buffer
		err := all.ExecuteTemplate(&out, name, dot)
		return out.String(), err
	}
	functions["toYaml"] = func(value interface{}) string {
		out, err := yaml.Marshal(value)
		check(err)
		return strings.TrimSuffix(string(out), "\n")
	}
	all.Funcs(functions)
	for _, path := range os.Args[2:] {
		text, err := os.ReadFile(path)
		check(err)
		template.Must(all.New(filepath.Base(path)).Parse(string(text)))
	}
	rendered := map[string]string{}
	for _, path := range os.Args[2:] {
		if strings.HasSuffix(path, ".yaml") {
			var out bytes.Buffer
			check(all.ExecuteTemplate(&out, filepath.Base(path), root))
			rendered[filepath.Base(path)] = out.String()
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(rendered))
}
