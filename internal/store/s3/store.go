package s3

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

const (
	// defaultRegion is used to sign requests to stores without regions. A bucket of AWS
	// in another region returns its region, and requests are then sent there.
	defaultRegion = "us-east-1"
	// maxIdle bounds the number of idle connections that are kept. It is about the number of
	// concurrent reads of all streams.
	maxIdle         = 256
	idle, keepAlive = 90 * time.Second, 30 * time.Second
	// readBuffer is the size of a connection's read buffer, large enough to save system calls.
	readBuffer = 64 << 10
	// Credentials are renewed expiryWindow before they expire.
	expiryWindow = 5 * time.Second
)

// Options configure a Store.
type Options struct {
	Settings Settings
	// Environment reserves memory for the head of each file of unknown size, until
	// the file is closed.
	store.Environment
	// Random returns a number in [0, 1) for back-off; nil uses math/rand.
	Random func() float64
}

// Store reads, writes, lists and removes files in S3. It is safe for concurrent use.
type Store struct {
	options   Options
	client    *s3.Client
	transport *http.Transport
	silence   time.Duration
	// expired renews the credentials if the credentials with the given key id are still in use.
	expired func(ctx context.Context, key string)
	regions sync.Map // regions by bucket, for buckets whose responses named their region
}

var _ store.Store = (*Store)(nil)

// New returns a store. It makes no request; the store looks for credentials when it first accesses
// a file.
func New(ctx context.Context, options Options) (*Store, error) {
	s := options.Settings
	if err := fault.Fields(s.contradictions()); err != nil {
		return nil, err
	}
	if options.Random == nil {
		options.Random = rand.Float64
	}
	cfg, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	transport, err := s.transport(cfg)
	if err != nil {
		return nil, err
	}
	out := &Store{options: options, transport: transport, silence: s.RequestTimeout, expired: func(context.Context, string) {}}
	if out.silence <= 0 {
		out.silence = defaultSilence
	}
	if known, ok := cfg.Credentials.(*aws.CredentialsCache); ok {
		out.expired = func(ctx context.Context, key string) {
			if now, err := known.Retrieve(ctx); err != nil || key == "" || now.AccessKeyID == key {
				known.Invalidate()
			}
		}
	}
	out.client = s3.NewFromConfig(cfg, func(o *s3.Options) {
		if s.Endpoint != "" {
			o.BaseEndpoint = aws.String(s.Endpoint)
		}
		o.HTTPClient = &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		o.Retryer = aws.NopRetryer{} // the method retry retries instead, even after a body that breaks off
		// The environment may also name an endpoint.
		o.UsePathStyle = s.PathStyle || s.Endpoint == "" && o.BaseEndpoint != nil
	})
	return out, nil
}

// transport returns a transport that uses the SDK's certificates.
func (s Settings) transport(cfg aws.Config) (*http.Transport, error) {
	out := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if known, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		out.TLSClientConfig = known.GetTransport().TLSClientConfig
	}
	if s.ProxyURI != "" {
		uri, err := url.Parse(s.ProxyURI)
		if err != nil {
			return nil, fault.InvalidField("s3.proxy-uri", "%q is no URL", fault.RedactURI(s.ProxyURI))
		}
		out.Proxy = http.ProxyURL(uri)
	}
	connect := s.ConnectTimeout
	if connect <= 0 {
		connect = defaultConnect
	}
	out.DialContext = (&net.Dialer{Timeout: connect, KeepAlive: keepAlive}).DialContext
	out.TLSHandshakeTimeout = connect
	out.MaxIdleConnsPerHost, out.IdleConnTimeout = maxIdle, idle
	out.DisableCompression = true
	out.ReadBufferSize = readBuffer
	return out, nil
}

// load returns the configuration of the environment and of the shared files, overridden by the
// settings.
func (s Settings) load(ctx context.Context) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{
		// Responses with a range have no checksum to validate.
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
		config.WithLogger(logging.Nop{}), // errors contain everything that the SDK would log
		// The signature covers the bodies of writes, which therefore need no other checksum. Stores
		// other than AWS reject trailing checksums.
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithCredentialsCacheOptions(early),
	}
	if s.Region != "" {
		options = append(options, config.WithRegion(s.Region))
	}
	if s.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(s.Profile))
	}
	switch {
	case s.Credentials != nil:
		options = append(options, config.WithCredentialsProvider(cached(s.Credentials)))
	case s.Anonymous:
		options = append(options, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	case s.AccessKeyID != "":
		keys := credentials.NewStaticCredentialsProvider(s.AccessKeyID, s.SecretAccessKey, s.SessionToken)
		options = append(options, config.WithCredentialsProvider(keys))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		if ctx.Err() != nil {
			return cfg, context.Cause(ctx)
		}
		return cfg, fault.New(fault.Invalid, "the settings of S3 cannot be read: %w", err).
			WithRemedy("check s3.profile-name, the shared AWS configuration, and the AWS environment variables")
	}
	if cfg.Region == "" {
		cfg.Region = defaultRegion
	}
	if s.RoleARN != "" && s.Credentials == nil {
		cfg.Credentials = cached(stscreds.NewAssumeRoleProvider(sts.NewFromConfig(cfg), s.RoleARN, func(o *stscreds.AssumeRoleOptions) {
			if o.RoleSessionName = s.RoleSessionName; s.RoleSessionName == "" {
				o.RoleSessionName = "penstock"
			}
		}))
	}
	return cfg, nil
}

func cached(keys aws.CredentialsProvider) *aws.CredentialsCache {
	return aws.NewCredentialsCache(keys, early)
}

// early makes the cache of credentials renew them before they expire.
func early(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = expiryWindow }

// Open implements store.Store. It makes no request if the size is known.
func (s *Store) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	bucket, key, err := split(location)
	if err != nil {
		return nil, err
	}
	o := &object{store: s, location: location, bucket: bucket, key: key, size: size}
	if size != store.SizeUnknown {
		return o, nil
	}
	if s.options.Reserve != nil {
		if o.held, err = s.options.Reserve(ctx, headBytes); err != nil {
			return nil, fault.Op(err, "open %s", location)
		}
	}
	if err := o.readHead(ctx); err != nil {
		o.held.Release()
		return nil, err
	}
	return o, nil
}

// Close closes idle connections. Open files can still be read.
func (s *Store) Close() { s.transport.CloseIdleConnections() }

// in returns an option that sends a request to the region of a bucket, if a response has named that
// region.
func (s *Store) in(bucket string) func(*s3.Options) {
	return func(o *s3.Options) {
		if region, ok := s.regions.Load(bucket); ok {
			o.Region = fmt.Sprint(region)
		}
	}
}
