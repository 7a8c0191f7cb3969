package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// smallest is the remedy for an empty file.
const smallest = `begin with: catalogs: {default: {type: sql, uri: "sqlite:////path/to/catalog.db"}}`

// source collects values and faults.
type source struct {
	values map[string][]value // by the setting's name; the last value applies
	faults []fault.Field
}

func (s *source) put(name string, v value) {
	if s.values == nil {
		s.values = map[string][]value{}
	}
	s.values[name] = append(s.values[name], v)
}

// MisspelledVariables returns the variables of an environment, in the form of os.Environ, that look
// misspelled: the name is close to the name of a setting's variable, or to one of others, but equal
// to none. The result has the closest name for each of them.
func MisspelledVariables(environ, others []string) map[string]string {
	names, out := slices.Clone(others), map[string]string{}
	for _, s := range Settings() {
		names = append(names, s.Env())
	}
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], envPrefix)
	}
	for _, one := range environ {
		variable, _, _ := strings.Cut(one, "=")
		name, ours := strings.CutPrefix(variable, envPrefix)
		if !ours || slices.Contains(names, name) {
			continue
		}
		if near := fault.Nearest(name, names); near != "" {
			out[variable] = envPrefix + near
		}
	}
	return out
}

// environment adds the variables of settings. An empty variable counts as not set.
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

// flags adds the given flags.
func (s *source) flags(given map[string]string) {
	for _, setting := range Settings() {
		if text, ok := given[setting.Flag()]; ok {
			s.put(setting.Name, value{text: text, from: "--" + setting.Flag()})
		}
	}
}

// readFile reads the config file. It adds catalogs and datasets to c, and settings and faults to
// given. It returns an error only if the file as a whole cannot be used.
func (c *Config) readFile(given *source, origin Origin) error {
	root, err := parse(c.File)
	if err != nil {
		return err
	}
	settings := map[string]Setting{}
	var names []string
	for _, s := range Settings() {
		settings[s.Name], names = s, append(names, s.Name)
	}
	file, faults := decode.File(root, names)
	given.faults = append(given.faults, faults...)
	for _, s := range file.Server {
		v := value{text: strings.Join(s.Values, ","), from: "server." + s.Name, line: s.Line, dir: c.Dir()}
		if s.List && !settings[s.Name].List {
			given.faults = append(given.faults, v.fault("must be a single value, not a list"))
			continue
		}
		given.put(s.Name, v)
	}
	for _, found := range file.Catalogs {
		given.faults = append(given.faults, c.catalog(found, origin)...)
	}
	c.Datasets = file.Datasets
	if len(c.Catalogs) == 0 && len(given.faults) == 0 {
		given.faults = append(given.faults, fault.Field{Field: "catalogs", Message: "there is no catalog; " + smallest, Line: root.Line})
	}
	return nil
}

// parse reads a file as one YAML mapping.
func parse(path string) (*yaml.Node, error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.NotFound, "there is no config file %s", path).In("", path).
			WithRemedy("name it with --config or PENSTOCK_CONFIG%s", beside(path))
	case err != nil:
		return nil, fault.New(fault.Invalid, "the config file cannot be read: %w", err).In("", path).
			WithRemedy("name a YAML file that this user may read with --config")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, more yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF), err == nil && document.Content[0].ShortTag() == "!!null":
		return nil, fault.New(fault.Invalid, "the config file %s is empty", path).In("", path).WithRemedy("%s", smallest)
	case err != nil:
		return nil, syntax(path, text, err)
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		second := fault.Field{Message: "a second YAML document begins here, a config file has one", Line: more.Line}
		return nil, fault.As(fault.Fields([]fault.Field{second})).In("", path)
	case !errors.Is(err, io.EOF):
		return nil, syntax(path, text, err)
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fault.InvalidField("", "want a mapping with catalogs, datasets and server").
			In("", path).WithRemedy("%s", smallest)
	}
	return root, nil
}

// beside returns the end of a sentence that suggests a file with a similar name in the same folder.
func beside(path string) string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return ""
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	if near := fault.Nearest(filepath.Base(path), names); near != "" {
		return "; did you mean " + filepath.Join(filepath.Dir(path), near) + "?"
	}
	return ""
}

// maxBisected is the maximum number of lines of a file in which mistakenLine searches.
const maxBisected = 1000

// mistakenLine returns the first line that makes the text invalid YAML, whatever follows, or 0 if
// it does not find the line. It is needed because the parser reports the line at which the
// surrounding block begins.
func mistakenLine(text []byte) int {
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(lines) > maxBisected {
		return 0
	}
	end := len(text)
	for at := len(lines) - 1; at > 0; at-- {
		end -= len(lines[at])
		var document yaml.Node
		if yaml.Unmarshal(text[:end], &document) == nil {
			return at + 1
		}
	}
	return 0
}

// parserLine matches the beginning of the parser's errors.
var parserLine = regexp.MustCompile(`^line \d+: `)

// syntax returns the fault for an error of the YAML parser.
func syntax(path string, text []byte, err error) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if line := mistakenLine(text); line > 0 {
		message = fmt.Sprintf("line %d: %s", line, parserLine.ReplaceAllString(message, ""))
	}
	remedy := "look at that line and the one before it"
	if strings.Contains(err.Error(), "cannot start any token") {
		remedy += ": YAML is indented by spaces, not by tabs, and a value that begins with @, ` or % must be quoted"
	}
	return fault.New(fault.Invalid, "the config file is not YAML: %s", message).In("", path).
		WithRemedy("%s", remedy)
}
