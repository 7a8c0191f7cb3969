package fault

import "strings"

// hidden replaces a secret.
const hidden = "xxxxx"

// ends are the bytes that end a URI within a text.
const ends = " \t\r\n\"`"

// Redact hides secrets in the URIs of a text: the user information before the host, and the values
// of parameters named password, token, key or the like. Errors are already redacted. Call Redact
// for other texts that users may see, such as logs.
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

// RedactURI hides the secrets of a single URI, or of an address without a scheme. Unlike Redact, it
// treats the whole text as the URI.
func RedactURI(uri string) string {
	scheme, rest, found := strings.Cut(uri, "://")
	if !found {
		return withoutSecrets(withoutUser(uri))
	}
	return withoutSecrets(scheme + "://" + withoutUser(rest))
}

// uriEnd returns the end of the URI at the beginning of a text. A backslash
// escapes the byte after it, as in quoted texts.
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

// withoutUser hides the user information of a URI, given without its scheme. A
// password may contain an unescaped slash: then the apparent port is not a number,
// and an @ follows.
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

// withoutSecrets hides the values of parameters with names of secrets.
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

// secret reports whether a parameter's name indicates a secret.
func secret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"pass", "pwd", "token", "secret", "credential", "key", "signature", "auth"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
