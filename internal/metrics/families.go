package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// What is gathered in one process and written in another: families in their binary form.

// passedOn is how families are passed on.
var passedOn = expfmt.NewFormat(expfmt.TypeProtoDelim)

// Families gathers the metrics for Text of another process. Without goRuntime those of Go's runtime are left out.
func (e *Exporter) Families(goRuntime bool) ([]byte, error) {
	families, err := e.gather(goRuntime)
	if err != nil {
		return nil, err
	}
	return encode(families, passedOn)
}

// Text gives families in the format that suits an Accept header best.
func Text(families []byte, accept string) (text []byte, contentType string, err error) {
	var all []*dto.MetricFamily
	for from := expfmt.NewDecoder(bytes.NewReader(families), passedOn); ; {
		family := &dto.MetricFamily{}
		err := from.Decode(family)
		switch {
		case errors.Is(err, io.EOF):
			return written(all, accept)
		case err != nil:
			return nil, "", fmt.Errorf("decode metrics: %w", err)
		}
		all = append(all, family)
	}
}

func written(families []*dto.MetricFamily, accept string) (text []byte, contentType string, err error) {
	format := expfmt.NegotiateAccept(http.Header{"Accept": {accept}}, expfmt.DefaultOpenMetricsAcceptedFormats()...)
	text, err = encode(families, format)
	return text, string(format), err
}

func encode(families []*dto.MetricFamily, format expfmt.Format) ([]byte, error) {
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, format)
	for _, family := range families {
		if err := encoder.Encode(family); err != nil {
			return nil, fmt.Errorf("encode metrics: %w", err)
		}
	}
	if end, ok := encoder.(io.Closer); ok { // OpenMetrics has a last line
		if err := end.Close(); err != nil {
			return nil, fmt.Errorf("encode metrics: %w", err)
		}
	}
	return out.Bytes(), nil
}

// gather asks the source, and Go's runtime if it is wanted.
func (e *Exporter) gather(goRuntime bool) ([]*dto.MetricFamily, error) {
	e.once.Do(e.begin)
	e.mu.Lock()
	defer e.mu.Unlock()
	from := prometheus.Gatherers{e.own}
	if goRuntime {
		from = append(from, e.runtime)
	}
	families, err := from.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather metrics: %w", err)
	}
	return families, nil
}
