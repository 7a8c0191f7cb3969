package decode

import (
	"cmp"
	"math"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// The limits for config files. The operator of the server controls them, so the limits
// are much higher than those for the texts of clients. Datasets are two levels deep in
// the file.
const (
	maxFileNodes = 16 * maxNodes
	fileDepth    = -2
)

// File decodes a config file. The names of the server's settings are in settings. It returns every
// fault with its line. It also returns all parts of the file that could be decoded, so that the
// caller can check these parts, too.
func File(root *yaml.Node, settings []string) (dataset.File, []fault.Field) {
	d := newDecoder()
	d.limit = math.MaxInt
	var out dataset.File
	object(d, d.yaml(root, fileDepth, maxFileNodes), &out, []field[dataset.File]{
		{name: "catalogs", read: func(d *decoder, at place, out *dataset.File) { out.Catalogs = entries(d, at, readCatalog) }},
		{name: "datasets", read: func(d *decoder, at place, out *dataset.File) { out.Datasets = entries(d, at, readNamed) }},
		{name: "server", read: func(d *decoder, at place, out *dataset.File) { out.Server = readSettings(d, at, settings) }},
	})
	return out, d.faults
}

// entries decodes the values of a mapping from names.
func entries[T any](d *decoder, at place, read func(d *decoder, name string, at place) T) []T {
	if at.kind != kindObject {
		d.fail(at.path, "must be a mapping from names to objects, not %s", at.kind)
	}
	var out []T
	for _, m := range at.members {
		out = append(out, read(d, m.name, at.member(m)))
	}
	return out
}

// readCatalog decodes a catalog.
func readCatalog(d *decoder, name string, at place) dataset.Catalog {
	out := dataset.Catalog{Name: name, Stored: name}
	if name == "" {
		d.fail(at.path, "the name is empty")
	}
	out.PinTags, out.WriteNamespaces = readPinTags(d, at), readWrites(d, at)
	if at.kind != kindNull {
		readProperties(d, at, "", func(name string, at place) {
			switch name {
			case "type":
				out.Type = d.scalar(at)
			case "uri":
				out.URI = d.scalar(at)
			case "warehouse":
				out.Warehouse = d.scalar(at)
			case "name":
				out.Stored = d.scalar(at)
			case prefixesField:
				out.AllowedPrefixes = readPrefixes(d, at)
			case sizesField:
				out.StoredSizes = readFileSizes(d, at)
			default:
				out.Properties = append(out.Properties, dataset.Property{Name: name, Value: d.scalar(at), Line: d.line(at.path)})
			}
		})
	}
	if out.Type == "" {
		out.Type = dataset.CatalogTypeOfURI(out.URI)
	}
	if d.sound(at.path) {
		d.checkType(at, out)
	}
	return out
}

// checkType reports a catalog without a type, or without a URI that its type needs.
func (d *decoder) checkType(at place, of dataset.Catalog) {
	if of.Type == "" && of.URI != "" {
		d.fail(at.path, "the type cannot be derived from its uri; set type: sql, rest or directory, or use a uri that begins with sqlite:, postgresql:, http: or https:")
		return
	}
	t, _ := dataset.CatalogTypeOf(cmp.Or(of.Type, dataset.CatalogSQL))
	if t.NeedsURI && of.URI == "" {
		d.fail(at.path, "it needs type and uri, such as %s", t.Example)
	}
}

// The names of Penstock's own fields of a catalog, as opposed to the catalog's
// properties.
const (
	pinTagsField  = "pin_tags"
	keepField     = "keep"
	prefixesField = "allowed_prefixes"
	sizesField    = "file_sizes"
)

// The bounds of keep. Renewals need time, and every tag must expire.
const (
	minKeep = time.Hour
	maxKeep = 3660 * 24 * time.Hour
)

// isPinTags reports whether readPinTags decodes the field of a catalog that has this name.
func isPinTags(name string) bool { return name == pinTagsField || name == pinTagsField+"."+keepField }

// readPinTags decodes how long snapshots of a catalog are kept: pin_tags: {keep: 7d}, or the
// dotted name pin_tags.keep.
func readPinTags(d *decoder, at place) (keep time.Duration) {
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

// readPrefixes decodes the folders that files may be in: a single folder or a list.
func readPrefixes(d *decoder, at place) (out []string) {
	if at.kind != kindList {
		return []string{d.scalar(at)}
	}
	if len(at.items) == 0 {
		d.fail(at.path, "must not be empty; leave it out for the default")
	}
	for i := range at.items {
		out = append(out, d.scalar(at.item(i)))
	}
	return out
}

// readFileSizes decodes `file_sizes`, and reports whether the sizes of files come from storage.
func readFileSizes(d *decoder, at place) bool {
	switch text := d.scalar(at); text {
	case "manifest":
	case "storage":
		return true
	default:
		if d.sound(at.path) {
			d.fail(at.path, "must be manifest or storage")
		}
	}
	return false
}

// keep decodes how long a snapshot is kept.
func (d *decoder) keep(at place) time.Duration {
	out := d.duration(at)
	if d.sound(at.path) && (out < minKeep || out > maxKeep) {
		d.fail(at.path, "must be from %s to %s", dataset.Lag{Time: minKeep}, dataset.Lag{Time: maxKeep})
	}
	return out
}

// readProperties calls found for each value in an object and its nested objects, except
// nulls, with its dotted name: {s3: {region: a}} is {s3.region: a}.
func readProperties(d *decoder, at place, prefix string, found func(name string, at place)) {
	if at.kind != kindObject {
		d.mismatch(at, "an object")
		return
	}
	for _, m := range at.members {
		if prefix == "" && (isPinTags(m.name) || isWrites(m.name)) {
			continue // decoded by readPinTags and readWrites
		}
		switch value := at.member(m); value.kind {
		case kindNull:
		case kindObject:
			readProperties(d, value, prefix+m.name+".", found)
		case kindBool, kindWhole, kindNumber, kindTime, kindText, kindList:
			found(prefix+m.name, value)
		}
	}
}

// readSettings decodes the server's settings. Only the given names are known.
func readSettings(d *decoder, at place, names []string) []dataset.Setting {
	var out []dataset.Setting
	fields := make([]field[[]dataset.Setting], len(names))
	for i, name := range names {
		fields[i] = field[[]dataset.Setting]{name: name, also: settingsMeant()[name], read: func(d *decoder, at place, out *[]dataset.Setting) {
			s := dataset.Setting{Name: name, List: at.kind == kindList, Line: d.line(at.path)}
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
