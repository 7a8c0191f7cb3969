package restcat

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// The properties that this package reads. The names are those of PyIceberg.
const (
	propertyToken      = "token"
	propertyCredential = "credential"
	propertyOAuth      = "oauth2-server-uri"
	propertyOAuthOld   = "rest.authorization-url"
	propertyScope      = "scope"
	propertyAudience   = "audience"
	propertyResource   = "resource"
	propertyPrefix     = "prefix"
	propertyWarehouse  = "warehouse"
	propertyURI        = "uri"
	propertySeparator  = "namespace-separator"
	propertySigV4      = "rest.sigv4-enabled"
	propertySignRegion = "rest.signing-region"
	propertySignName   = "rest.signing-name"
	propertyRemoteSign = "s3.remote-signing-enabled"
	propertySigner     = "s3.signer"
	headerPrefix       = "header."
	propertyKey        = "rest.access-key-id"
	propertySecretKey  = "rest.secret-access-key"
	propertySession    = "rest.session-token"
)

// Properties returns the names of the properties that this package reads. A name that ends
// in a dot stands for all properties that begin with it.
func Properties() []string {
	return []string{
		propertyToken, propertyCredential, propertyOAuth, propertyOAuthOld, propertyScope, propertyAudience, propertyResource,
		propertyPrefix, propertySeparator, propertySigV4, propertySignRegion, propertySignName, headerPrefix,
		propertyKey, propertySecretKey, propertySession,
	}
}

// Options configure a Catalog.
type Options struct {
	Name      string // of the catalog, in errors
	URI       string // URI of the server, without /v1
	Warehouse string // "" if the server has only one
	// Properties are the catalog's properties, with PyIceberg's names. The server may override
	// them.
	Properties map[string]string
	// Stores are the kinds of storage that the server's responses may have settings and credentials
	// for.
	Stores store.Kinds
	// Timeout limits a call, including its retries; 0 is unlimited.
	Timeout time.Duration
	// Transport sends requests. If it is nil, the catalog makes a transport.
	Transport http.RoundTripper
	// Sign returns the function that signs requests. It is called if rest.sigv4-enabled is true. If
	// Sign is nil, this property is an error.
	Sign func(Signing) (Signer, error)
	// Clock returns the current time, to tell whether tokens have expired. If it is nil, tokens are
	// used until they are rejected.
	Clock func() time.Time
	// Unreachable is called with the error if the server does not answer Open, which then returns a catalog nevertheless: later
	// calls ask for the configuration, and return Unavailable until they get it. If it is nil, Open returns the error.
	Unreachable func(error)
	// Random returns a number in [0, 1) for back-off; nil uses math/rand.
	Random func() float64
}

// Signing configures the signatures of requests.
type Signing struct {
	Region, Service string
	// Properties are the catalog's properties. They may include credentials.
	Properties map[string]string
}

// Signer signs a request.
type Signer func(r *http.Request) error

// server parses the URI of a server.
func server(field, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.InvalidField(field, "%q is not the address of a server", fault.RedactURI(text)).
			WithRemedy("write it as http://host:port/path or https://host/path, without /v1")
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	return u, nil
}

// unserved returns an error for properties that require an unsupported feature.
func unserved(properties map[string]string) error {
	if isTrue(properties[propertyRemoteSign]) || properties[propertySigner] != "" {
		name := propertyRemoteSign
		if properties[propertySigner] != "" {
			name = propertySigner
		}
		return fault.InvalidField(name, "remote signing of requests to storage is not supported by this version").
			WithRemedy("let the catalog vend credentials, or name keys in its block (s3.access-key-id, s3.secret-access-key)")
	}
	for name, value := range properties {
		if strings.EqualFold(name, headerPrefix+delegationHeader) && strings.Contains(strings.ToLower(value), "remote-signing") {
			return fault.InvalidField(name, "remote signing is not supported by this version").WithRemedy("leave it out: vended credentials are always requested")
		}
	}
	return nil
}

// isTrue reports whether PyIceberg parses the text as the boolean true.
func isTrue(text string) bool {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "t", "yes", "y", "on", "1":
		return true
	}
	return false
}
