package s3

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/penstock/penstock/internal/fault"
)

const (
	defaultConnect = 10 * time.Second
	// defaultSilence is how long a request waits for data before it is given up. A read fails after
	// three such requests, which take a minute in total.
	defaultSilence = 20 * time.Second
)

// Settings say how buckets are reached. They correspond to the properties of PyIceberg
// (s3.endpoint, s3.region, …). The SDK finds values that are not set: in the environment,
// in the shared configuration, by web identity or from the machine.
type Settings struct {
	Endpoint        string // URL; "" is AWS
	Region          string
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string
	Profile         string // profile of the shared configuration
	RoleARN         string // a role to assume with the credentials
	RoleSessionName string
	ProxyURI        string // "" means the proxy of the environment
	// PathStyle puts the bucket in the path instead of the host name. FromProperties
	// sets it if there is an Endpoint, unless the properties say otherwise.
	PathStyle bool
	Anonymous bool // requests are not signed
	// ConnectTimeout limits how long connecting may take; RequestTimeout limits how long the server
	// may be silent before or during a response. 0 means the default: 10 seconds to connect, and 20
	// seconds of silence.
	ConnectTimeout, RequestTimeout time.Duration
	// Credentials, if not nil, replaces all of the credentials above. It is called again when the
	// credentials that it returned have expired.
	Credentials aws.CredentialsProvider
}

// properties returns how to set each property that FromProperties reads.
func properties() map[string]func(*Settings, string) error {
	text := func(field func(*Settings) *string) func(*Settings, string) error {
		return func(s *Settings, v string) error { *field(s) = v; return nil }
	}
	seconds := func(field func(*Settings) *time.Duration) func(*Settings, string) error {
		return func(s *Settings, v string) error {
			n, err := strconv.ParseFloat(v, 64)
			if err != nil || !(n > 0 && n <= time.Hour.Seconds()) {
				return fmt.Errorf("%q is not a number of seconds", v)
			}
			*field(s) = time.Duration(n * float64(time.Second))
			return nil
		}
	}
	uri := func(field func(*Settings) *string) func(*Settings, string) error {
		return func(s *Settings, v string) error {
			*field(s) = v
			return checkURI(v)
		}
	}
	out := map[string]func(*Settings, string) error{
		"s3.endpoint":  uri(func(s *Settings) *string { return &s.Endpoint }),
		"s3.proxy-uri": uri(func(s *Settings) *string { return &s.ProxyURI }),
		"s3.anonymous": func(s *Settings, v string) (err error) {
			if s.Anonymous, err = truth(v); err != nil {
				return fmt.Errorf("%q is neither true nor false", v)
			}
			return nil
		},
		propertyPath:         func(*Settings, string) error { return nil }, // pathStyle reads this property
		propertyVirtual:      func(*Settings, string) error { return nil },
		"s3.connect-timeout": seconds(func(s *Settings) *time.Duration { return &s.ConnectTimeout }),
		"s3.request-timeout": seconds(func(s *Settings) *time.Duration { return &s.RequestTimeout }),
	}
	for name, field := range map[string]func(*Settings) *string{
		"region":            func(s *Settings) *string { return &s.Region },
		"access-key-id":     func(s *Settings) *string { return &s.AccessKeyID },
		"secret-access-key": func(s *Settings) *string { return &s.SecretAccessKey },
		"session-token":     func(s *Settings) *string { return &s.SessionToken },
		"profile-name":      func(s *Settings) *string { return &s.Profile },
		"role-arn":          func(s *Settings) *string { return &s.RoleARN },
		"role-session-name": func(s *Settings) *string { return &s.RoleSessionName },
	} {
		out["client."+name], out["s3."+name] = text(field), text(field)
	}
	return out
}

// truth parses a boolean as PyIceberg does.
func truth(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "t", "yes", "y", "on", "1":
		return true, nil
	case "false", "f", "no", "n", "off", "0":
		return false, nil
	}
	return false, strconv.ErrSyntax
}

// checkURI returns an error for an invalid URI. The error does not show the URI completely, since
// it may contain a password.
func checkURI(v string) error {
	if v == "" {
		return nil
	}
	if u, err := url.Parse(v); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is not a URL such as https://host:port", fault.RedactURI(v))
	}
	return nil
}

// FromProperties reads settings from a catalog's properties, which have the names that PyIceberg
// gives them. A property s3.… overrides the property client.… of the same setting. If there is an
// endpoint, buckets are in paths, unless s3.path-style-access is false or
// s3.force-virtual-addressing is true. FromProperties returns the names of the properties that it
// read, and ignores other properties. It reports all invalid values in one error.
func FromProperties(given map[string]string) (s Settings, used []string, err error) {
	var faults []fault.Field
	known := properties()
	for _, name := range slices.Sorted(maps.Keys(given)) { // sorted, so that s3.… comes after client.… and overrides it
		set, ok := known[name]
		if !ok {
			continue
		}
		used = append(used, name)
		if err := set(&s, given[name]); err != nil {
			faults = append(faults, fault.Field{Field: name, Message: err.Error()})
		}
	}
	style, err := pathStyle(given, s.Endpoint != "")
	s.PathStyle = style
	if err != nil {
		faults = append(faults, fault.As(err).Faults...)
	}
	faults = append(faults, s.contradictions()...)
	return s, used, fault.Fields(faults)
}

const (
	propertyPath    = "s3.path-style-access"
	propertyVirtual = "s3.force-virtual-addressing"
)

// pathStyle reads the two properties that determine whether the path or the host names the bucket.
// The value false of s3.force-virtual-addressing keeps the default.
func pathStyle(given map[string]string, byDefault bool) (bool, error) {
	path, hasPath := given[propertyPath]
	virtual, hasVirtual := given[propertyVirtual]
	inPath, err := truth(path)
	if hasPath && err != nil {
		return byDefault, fault.InvalidField(propertyPath, "%q is neither true nor false", path)
	}
	force, err := truth(virtual)
	if hasVirtual && err != nil {
		return byDefault, fault.InvalidField(propertyVirtual, "%q is neither true nor false", virtual)
	}
	switch {
	case force && inPath:
		return byDefault, fault.InvalidField(propertyVirtual, "contradicts %s", propertyPath)
	case force:
		return false, nil
	case hasPath:
		return inPath, nil
	default:
		return byDefault, nil
	}
}

// contradictions returns a fault for settings that cannot be combined.
func (s Settings) contradictions() []fault.Field {
	var faults []fault.Field
	add := func(field, message string) { faults = append(faults, fault.Field{Field: field, Message: message}) }
	switch {
	case s.AccessKeyID != "" && s.SecretAccessKey == "":
		add("s3.secret-access-key", "is missing beside s3.access-key-id")
	case s.AccessKeyID == "" && s.SecretAccessKey != "":
		add("s3.access-key-id", "is missing beside s3.secret-access-key")
	case s.AccessKeyID == "" && s.SessionToken != "":
		add("s3.access-key-id", "is missing beside s3.session-token")
	}
	if s.Anonymous && (s.AccessKeyID != "" || s.Profile != "" || s.RoleARN != "") {
		add("s3.anonymous", "contradicts settings of credentials")
	}
	if s.RoleSessionName != "" && s.RoleARN == "" {
		add("s3.role-session-name", "names a session without s3.role-arn")
	}
	return faults
}
