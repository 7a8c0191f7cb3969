package decode

import (
	"slices"
	"strings"
)

// The names of the catalog field that allows writes, and of its nested field.
const (
	writesField     = "writes"
	namespacesField = "namespaces"
)

// isWrites reports whether readWrites decodes the field of a catalog that has this name.
func isWrites(name string) bool {
	return name == writesField || name == writesField+"."+namespacesField
}

// readWrites decodes the namespaces that a catalog may write to: writes: {namespaces: [a, b]}, or
// the dotted name writes.namespaces.
func readWrites(d *decoder, at place) (namespaces []string) {
	for _, m := range at.members {
		p := at.member(m)
		if !isWrites(m.name) || p.kind == kindNull {
			continue
		}
		switch {
		case namespaces != nil:
			d.fail(p.path, "is given twice")
		case m.name != writesField:
			namespaces = readNamespaces(d, p)
		case p.kind != kindObject:
			d.fail(p.path, "must be an object, such as {namespaces: [features]}")
		default:
			object(d, p, &namespaces, []field[[]string]{{
				name: namespacesField, must: true, read: func(d *decoder, at place, into *[]string) { *into = readNamespaces(d, at) },
			}})
		}
	}
	return namespaces
}

// readNamespaces decodes a list of namespaces, with dots between their parts.
func readNamespaces(d *decoder, at place) (out []string) {
	if at.kind != kindList {
		d.fail(at.path, "must be a list of namespaces, such as [features, ml.staging]")
		return nil
	}
	if len(at.items) == 0 {
		d.fail(at.path, "must not be empty; leave writes out, and nothing is written")
	}
	for i := range at.items {
		item := at.item(i)
		name := d.scalar(item)
		if slices.Contains(strings.Split(name, "."), "") {
			d.fail(item.path, "%q is not a namespace: write its parts with dots between them", name)
		}
		if slices.Contains(out, name) {
			d.fail(item.path, "namespace %s is given twice", name)
		}
		out = append(out, name)
	}
	return out
}
