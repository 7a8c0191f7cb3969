package dataset

import (
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/fault"
)

// File is the content of a config file. Server settings are kept as text; the server
// interprets them.
type File struct {
	Catalogs []Catalog // these lists are in the order of the file
	Datasets []Dataset
	Server   []Setting
}

// Catalog is the configuration of a catalog.
type Catalog struct {
	Name      string // the first part of its tables' names
	Type      string
	URI       string
	Warehouse string
	Stored    string // name of the catalog in its own storage; default: Name
	// PinTags is how long tags keep the snapshots that streams read. 0 means that no tags
	// are created and nothing is written to the catalog.
	PinTags time.Duration
	// Properties are all other properties, in the order of the file. The catalog
	// interprets them. Their values may be secret.
	Properties []Property
}

// Property is a property of a catalog. Nested properties have dotted names.
type Property struct {
	Name, Value string
	Line        int // 1-based
}

// Setting is a server setting.
type Setting struct {
	Name   string
	Values []string // one, or the entries of a list
	List   bool
	Line   int // 1-based
}

// The limits for config files. The operator of the server controls them, so the limits
// are much higher than those for the texts of clients. Datasets are two levels deep in
// the file.
const (
	maxFileNodes = 16 * maxNodes
	fileDepth    = -2
)

// FileFromYAML decodes a config file. The names of the server's settings are in settings.
// It returns every fault with its line, and all parts of the file that could be read, so
// that they can be checked too.
func FileFromYAML(root *yaml.Node, settings []string) (File, []fault.Field) {
	d := newDecoder()
	d.most = math.MaxInt
	var out File
	object(d, d.yaml(root, fileDepth, maxFileNodes), &out, []field[File]{
		{name: "catalogs", read: func(d *decoder, at place, out *File) { out.Catalogs = entries(d, at, d.catalog) }},
		{name: "datasets", read: func(d *decoder, at place, out *File) { out.Datasets = entries(d, at, d.named) }},
		{name: "server", read: func(d *decoder, at place, out *File) { out.Server = d.settings(at, settings) }},
	})
	return out, d.faults
}

// entries decodes the values of a mapping from names.
func entries[T any](d *decoder, at place, read func(name string, at place) T) []T {
	if at.kind != kindObject {
		d.fail(at.path, "must be a mapping from names to objects, not %s", at.kind)
	}
	var out []T
	for _, m := range at.members {
		out = append(out, read(m.name, at.member(m)))
	}
	return out
}

// catalog decodes a catalog.
func (d *decoder) catalog(name string, at place) Catalog {
	out := Catalog{Name: name, Stored: name}
	if name == "" {
		d.fail(at.path, "the name is empty")
	}
	out.PinTags = d.pinTags(at)
	if at.kind != kindNull {
		d.properties(at, "", func(name string, at place) {
			switch name {
			case "type":
				out.Type = d.scalar(at)
			case "uri":
				out.URI = d.scalar(at)
			case "warehouse":
				out.Warehouse = d.scalar(at)
			case "name":
				out.Stored = d.scalar(at)
			default:
				out.Properties = append(out.Properties, Property{Name: name, Value: d.scalar(at), Line: d.line(at.path)})
			}
		})
	}
	if out.Type == "" {
		out.Type = typeOf(out.URI)
	}
	if d.sound(at.path) && out.Type == "" && out.URI != "" {
		d.fail(at.path, "its uri does not say which type it is; say type: sql, rest or directory, or write a uri that begins with sqlite:, postgresql:, http: or https:")
	} else if d.sound(at.path) && (out.Type == "" || out.URI == "" && (out.Type == "sql" || out.Type == "rest")) {
		form := `{type: sql, uri: "sqlite:////path/to/catalog.db"}`
		if out.Type == "rest" {
			form = `{type: rest, uri: "https://catalog.example.com"}`
		}
		d.fail(at.path, "it needs type and uri, such as %s", form)
	}
	return out
}

// The names of Penstock's own fields of a catalog, as opposed to the catalog's
// properties.
const (
	pinTagsField = "pin_tags"
	keepField    = "keep"
)

// The bounds of keep. Renewals need time, and every tag must expire.
const (
	leastKeep = time.Hour
	mostKeep  = 3660 * day
)

// isPinTags reports whether pinTags decodes the field of a catalog.
func isPinTags(name string) bool { return name == pinTagsField || name == pinTagsField+"."+keepField }

// pinTags decodes how long snapshots of a catalog are kept: pin_tags: {keep: 7d}, or the
// dotted name pin_tags.keep.
func (d *decoder) pinTags(at place) (keep time.Duration) {
	for _, m := range at.members {
		p := at.member(m)
		if !isPinTags(m.name) || p.kind == kindNull {
			continue
		}
		switch {
		case keep != 0:
			d.fail(p.path, "is given twice")
		case m.name != pinTagsField:
			keep = d.keep(p)
		case p.kind == kindText || p.kind == kindWhole:
			d.fail(p.path, "must be an object, such as {keep: 7d}")
		default:
			object(d, p, &keep, []field[time.Duration]{{
				name: keepField, must: true, read: func(d *decoder, at place, into *time.Duration) { *into = d.keep(at) },
			}})
		}
	}
	return keep
}

// keep decodes how long a snapshot is kept.
func (d *decoder) keep(at place) time.Duration {
	out := d.duration(at)
	if d.sound(at.path) && (out < leastKeep || out > mostKeep) {
		d.fail(at.path, "must be from %s to %s", durationText(leastKeep), durationText(mostKeep))
	}
	return out
}

// properties calls found for each value in an object and its nested objects, except
// nulls, with its dotted name: {s3: {region: a}} is {s3.region: a}.
func (d *decoder) properties(at place, prefix string, found func(name string, at place)) {
	if at.kind != kindObject {
		d.mismatch(at, "an object")
		return
	}
	for _, m := range at.members {
		if prefix == "" && isPinTags(m.name) {
			continue // see pinTags
		}
		switch value := at.member(m); value.kind {
		case kindNull:
		case kindObject:
			d.properties(value, prefix+m.name+".", found)
		case kindBool, kindWhole, kindNumber, kindTime, kindText, kindList:
			found(prefix+m.name, value)
		}
	}
}

// typeOf derives the type of a catalog from its URI, as PyIceberg does. It returns "" if
// the URI does not imply a type.
func typeOf(uri string) string {
	scheme, _, _ := strings.Cut(uri, ":")
	database, _, _ := strings.Cut(scheme, "+")
	switch database {
	case "http", "https":
		return "rest"
	case "sqlite", "postgresql", "postgres":
		return "sql"
	case "thrift":
		return "hive"
	}
	return ""
}

// settingsMeant returns names that other programs use for the server's settings.
func settingsMeant() map[string][]string {
	return map[string][]string{
		"listen":    {"port", "host", "address", "bind", "addr"},
		"memory":    {"mem", "ram", "memory_limit", "budget", "max_memory"},
		"log_level": {"logging", "log", "verbose"},
		"spool":     {"tmp", "temp_dir", "tmp_dir", "scratch"},
	}
}

// settings decodes the server's settings. Only the given names are known.
func (d *decoder) settings(at place, names []string) []Setting {
	var out []Setting
	fields := make([]field[[]Setting], len(names))
	for i, name := range names {
		fields[i] = field[[]Setting]{name: name, also: settingsMeant()[name], read: func(d *decoder, at place, out *[]Setting) {
			s := Setting{Name: name, List: at.kind == kindList, Line: d.line(at.path)}
			if !s.List {
				s.Values = []string{d.scalar(at)}
			}
			for i := range at.items {
				s.Values = append(s.Values, d.scalar(at.item(i)))
			}
			if d.sound(at.path) {
				*out = append(*out, s)
			}
		}}
	}
	object(d, at, &out, fields)
	return out
}

// scalar decodes a single value of YAML as the text in the file.
func (d *decoder) scalar(at place) string {
	switch at.kind {
	case kindList, kindObject:
		d.fail(at.path, "must be a single value, not %s", at.kind)
	case kindNull:
	case kindBool, kindWhole, kindNumber, kindTime, kindText:
		return at.written
	}
	return ""
}
