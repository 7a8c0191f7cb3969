package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// smallest is a remedy for a file without content.
const smallest = `begin with: catalogs: {default: {type: sql, uri: "sqlite:////path/to/catalog.db"}}`

// source collects what was given and what is wrong with it.
type source struct {
	values map[string][]value // by the setting's name; the last wins
	faults []located
}

func (s *source) put(name string, v value) {
	if s.values == nil {
		s.values = map[string][]value{}
	}
	s.values[name] = append(s.values[name], v)
}

// environment takes the variables of the settings. An empty one counts as not
// set.
func (s *source) environment(lookup func(string) (string, bool)) {
	if lookup == nil {
		return
	}
	for _, setting := range Settings() {
		if text, ok := lookup(setting.Env()); ok && text != "" {
			s.put(setting.Name, value{text: text, from: setting.Env()})
		}
	}
}

// flags takes the flags that were given.
func (s *source) flags(given map[string]string) {
	for _, setting := range Settings() {
		if text, ok := given[setting.Flag()]; ok {
			s.put(setting.Name, value{text: text, from: "--" + setting.Flag()})
		}
	}
}

// fault notes what is wrong at a node of the file.
func (s *source) fault(node *yaml.Node, path, format string, args ...any) *fault.Field {
	s.faults = append(s.faults, located{node.Line, fault.Field{Field: path, Message: fmt.Sprintf(format, args...) + inLine(node.Line)}})
	return &s.faults[len(s.faults)-1].Field
}

// inLine ends a message about the file, as dataset's own messages end.
func inLine(line int) string { return fmt.Sprintf(" (line %d)", line) }

// readFile reads the config file: catalogs and datasets into c, settings and
// faults into given. An error is about the file as a whole.
func (c *Config) readFile(given *source) error {
	root, err := parse(c.File)
	if err != nil {
		return err
	}
	for _, f := range given.fields(root, "", "catalogs", "datasets", "server") {
		switch f.name {
		case "catalogs":
			c.catalogs(given, f.value)
		case "datasets":
			c.datasets(given, f.value)
		case "server":
			given.server(f.value, c.Dir())
		}
	}
	if len(c.Catalogs) == 0 && len(given.faults) == 0 {
		given.fault(root, "catalogs", "there is no catalog; %s", smallest)
	}
	return nil
}

// parse reads a file as one YAML mapping.
func parse(path string) (*yaml.Node, error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.NotFound, "there is no config file %s", path).In("", path).
			WithRemedy("name it with --config or PENSTOCK_CONFIG")
	case err != nil:
		return nil, fault.New(fault.Invalid, "the config file cannot be read: %w", err).In("", path).
			WithRemedy("name a YAML file that this user may read with --config")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, more yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF), err == nil && isNull(document.Content[0]):
		return nil, fault.New(fault.Invalid, "the config file %s is empty", path).In("", path).WithRemedy("%s", smallest)
	case err != nil:
		return nil, syntax(path, err)
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		return nil, fault.InvalidField("", "a second YAML document begins here, a config file has one%s", inLine(more.Line)).In("", path)
	case !errors.Is(err, io.EOF):
		return nil, syntax(path, err)
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fault.InvalidField("", "want a mapping with catalogs, datasets and server").
			In("", path).WithRemedy("%s", smallest)
	}
	return root, nil
}

// syntax puts YAML's own message into our form.
func syntax(path string, err error) error {
	return fault.New(fault.Invalid, "the config file is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: ")).In("", path).
		WithRemedy("look at that line and the one before it")
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }

// field is one entry of a mapping.
type field struct {
	name       string
	path       string
	key, value *yaml.Node
}

// fields returns the entries of a mapping whose keys are known; known empty
// takes every name. Unknown and repeated keys are faults. A null mapping has
// no entries.
func (s *source) fields(node *yaml.Node, path string, known ...string) []field {
	node = resolved(node)
	if isNull(node) {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		s.fault(node, path, "want a mapping of names to values")
		return nil
	}
	var out []field
	lines := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		f := field{name: node.Content[i].Value, key: node.Content[i], value: resolved(node.Content[i+1])}
		f.path = strings.TrimPrefix(path+"."+f.name, ".")
		switch first, twice := lines[f.name]; {
		case twice:
			s.fault(f.key, f.path, "the field stands here a second time, after line %d", first)
		case len(known) > 0 && !slices.Contains(known, f.name):
			s.fault(f.key, f.path, "unknown field").Nearest = fault.Nearest(f.name, known)
		case f.name == "":
			s.fault(f.key, f.path, "the name is empty")
		default:
			out = append(out, f)
		}
		lines[f.name] = f.key.Line
	}
	return out
}

// resolved follows an alias to its anchor.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// text returns a scalar's text.
func (s *source) text(f field) (string, bool) {
	if f.value.Kind != yaml.ScalarNode {
		s.fault(f.value, f.path, "want a single value")
		return "", false
	}
	if isNull(f.value) {
		return "", true
	}
	return f.value.Value, true
}

func (c *Config) catalogs(given *source, node *yaml.Node) {
	for _, entry := range given.fields(node, "catalogs") {
		cat := Catalog{Name: entry.name}
		found := len(given.faults)
		for _, f := range given.fields(entry.value, entry.path, "type", "uri", "warehouse", "name") {
			text, ok := given.text(f)
			if !ok {
				continue
			}
			switch f.name {
			case "type":
				cat.Type = text
			case "uri":
				cat.URI = text
			case "warehouse":
				cat.Warehouse = text
			case "name":
				cat.Name = text
			}
		}
		if len(given.faults) == found && (cat.Type == "" || cat.URI == "") {
			given.fault(entry.key, entry.path, `it needs type and uri, such as {type: sql, uri: "sqlite:////path/to/catalog.db"}`)
		}
		c.Catalogs[entry.name] = cat
	}
}

func (s *source) server(node *yaml.Node, dir string) {
	var names []string
	settings := map[string]Setting{}
	for _, setting := range Settings() {
		names = append(names, setting.Name)
		settings[setting.Name] = setting
	}
	for _, f := range s.fields(node, "server", names...) {
		v := value{from: f.path, line: f.key.Line, dir: dir}
		if f.value.Kind == yaml.SequenceNode && settings[f.name].List {
			var parts []string
			for i, item := range f.value.Content {
				if text, ok := s.text(field{path: fmt.Sprintf("%s[%d]", f.path, i), value: resolved(item)}); ok {
					parts = append(parts, text)
				}
			}
			v.text = strings.Join(parts, ",")
		} else {
			text, ok := s.text(f)
			if !ok || isNull(f.value) {
				continue
			}
			v.text = text
		}
		s.put(f.name, v)
	}
}

// datasets decodes the datasets, in the order written.
func (c *Config) datasets(given *source, node *yaml.Node) {
	for _, entry := range given.fields(node, "datasets") {
		d, err := dataset.FromYAML(entry.name, entry.value)
		if err == nil {
			c.Datasets = append(c.Datasets, d)
			continue
		}
		e := fault.As(err)
		for _, f := range e.Faults {
			line := entry.key.Line
			if said := regexp.MustCompile(`\(line (\d+)\)$`).FindStringSubmatch(f.Message); said != nil {
				line, _ = strconv.Atoi(said[1])
			}
			f.Field = strings.TrimSuffix(entry.path+"."+f.Field, ".")
			given.faults = append(given.faults, located{line, f})
		}
		if len(e.Faults) == 0 {
			given.fault(entry.key, entry.path, "%s", e.Message)
		}
	}
}
