package fault

import "strings"

// hidden stands where a secret stood.
const hidden = "xxxxx"

// ends are the bytes that no URI in a text goes over.
const ends = " \t\r\n\"`"

// Redact hides what a text says of secrets in URIs: who asks, before the host,
// and parameters that are called password, token, key or the like. Errors do it
// by themselves; whoever shows a text that is none, as logs do, calls it.
func Redact(text string) string {
	if !strings.Contains(text, "://") && !strings.Contains(text, "=") {
		return text
	}
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "://")
		out.WriteString(before)
		if !found {
			return withoutSecrets(out.String())
		}
		end := uriEnd(after)
		out.WriteString("://" + withoutUser(after[:end]))
		text = after[end:]
	}
}

// RedactURI hides the secrets of a text that is meant to be one URI, or an address
// without a scheme. Unlike Redact it needs no scheme to know one, and no end.
func RedactURI(uri string) string {
	scheme, rest, found := strings.Cut(uri, "://")
	if !found {
		return withoutSecrets(withoutUser(uri))
	}
	return withoutSecrets(scheme + "://" + withoutUser(rest))
}

// uriEnd is where a URI ends that a text goes on with. A quoted text escapes
// quotes that belong to it.
func uriEnd(text string) int {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.IndexByte(ends, text[i]) >= 0:
			return i
		}
	}
	return len(text)
}

// withoutUser hides what stands before the host in what follows a URI's scheme.
// A password may hold a slash that nobody escaped: then what looks like a port is
// no number, and an @ follows.
func withoutUser(rest string) string {
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	at := strings.LastIndexByte(authority, '@')
	if colon := strings.LastIndexByte(authority, ':'); at < 0 && colon >= 0 && strings.Trim(authority[colon+1:], "0123456789") != "" {
		at = strings.LastIndexByte(rest, '@')
	}
	if at < 0 {
		return rest
	}
	return hidden + rest[at:]
}

// withoutSecrets hides the values of parameters whose names say that they are
// secret.
func withoutSecrets(text string) string {
	var out strings.Builder
	for {
		equals := strings.IndexByte(text, '=')
		if equals < 0 {
			out.WriteString(text)
			return out.String()
		}
		name, value := text[:equals], text[equals+1:]
		out.WriteString(text[:equals+1])
		if begin := strings.LastIndexAny(name, "?&;"+ends); begin >= 0 && strings.IndexByte("?&;", name[begin]) >= 0 && secret(name[begin:]) {
			if end := strings.IndexAny(value, "&;#"+ends); end >= 0 {
				value = value[end:]
			} else {
				value = ""
			}
			out.WriteString(hidden)
		}
		text = value
	}
}

// secret says whether a parameter's value is no one else's business.
func secret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"pass", "pwd", "token", "secret", "credential", "key", "signature", "auth"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
