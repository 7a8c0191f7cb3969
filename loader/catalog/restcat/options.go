package restcat

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// The properties of a catalog that are read here, under the names that PyIceberg has.
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

// Properties are the names of all that this package reads. One that ends in a dot begins
// those of any number.
func Properties() []string {
	return []string{
		propertyToken, propertyCredential, propertyOAuth, propertyOAuthOld, propertyScope, propertyAudience, propertyResource,
		propertyPrefix, propertySeparator, propertySigV4, propertySignRegion, propertySignName, headerPrefix,
		propertyKey, propertySecretKey, propertySession,
	}
}

// Options say where a catalog is.
type Options struct {
	Name      string // the catalog's, in errors
	URI       string // of the server, without /v1
	Warehouse string // that the server is asked for; "": its only one
	// Properties are the catalog's, under the names that PyIceberg has for them. What the
	// server overrides, it does.
	Properties map[string]string
	// Timeout is how long a question may take, retries included; 0 is for as long as its
	// asker waits.
	Timeout time.Duration
	// Transport sends requests; nil is one of the package's own.
	Transport http.RoundTripper
	// Sign signs requests as AWS has them, if the properties ask for that (rest.sigv4-enabled);
	// nil: this is not served.
	Sign func(Signing) (Signer, error)
	// Clock says when tokens end; nil: they are used until they are refused.
	Clock func() time.Time
	// Random is a number from 0 to below 1, for back-off; nil is math/rand's.
	Random func() float64
}

// Signing says how requests are to be signed.
type Signing struct {
	Region, Service string
	// Properties are the catalog's: they may name keys.
	Properties map[string]string
}

// Signer puts a signature on a request.
type Signer func(r *http.Request) error

// server parses a URI of a server.
func server(field, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.InvalidField(field, "%q is no address of a server", fault.RedactURI(text)).
			WithRemedy("write it as http://host:port/path or https://host/path, without /v1")
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	return u, nil
}

// unserved refuses properties that ask for what this version does not do.
func unserved(properties map[string]string) error {
	if isTrue(properties[propertyRemoteSign]) || properties[propertySigner] != "" {
		name := propertyRemoteSign
		if properties[propertySigner] != "" {
			name = propertySigner
		}
		return fault.InvalidField(name, "remote signing of requests to storage is not served by this version").
			WithRemedy("let the catalog vend credentials, or name keys in its block (s3.access-key-id, s3.secret-access-key)")
	}
	for name, value := range properties {
		if strings.EqualFold(name, headerPrefix+delegationHeader) && strings.Contains(strings.ToLower(value), "remote-signing") {
			return fault.InvalidField(name, "remote signing is not served by this version").WithRemedy("leave it out: vended credentials are asked for")
		}
	}
	return nil
}

// isTrue says whether a text is one that PyIceberg takes for true.
func isTrue(text string) bool {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "t", "yes", "y", "on", "1":
		return true
	}
	return false
}
