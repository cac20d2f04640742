package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// nginxConfig answers /0, /1 and so on with the same header fields and bodies, from
// memory. Of a redirect nginx writes a body of its own, of about the same length,
// and it names itself.
func nginxConfig(dir, address string, answers []*http.Response) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "daemon off; master_process off; worker_processes 1; pid %[1]s/nginx.pid;\nevents { worker_connections 1024; }\n"+
		"http { access_log off; keepalive_requests 1000000000; server_tokens off;\n"+
		"client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;\n"+
		"geo $dollar { default '$'; }\nserver { listen %[2]s;\n", dir, address)
	for n, res := range answers {
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "location = /%d {\n", n)
		for field, values := range res.Header {
			if !own(field) && field != "Location" && field != "Content-Type" {
				fmt.Fprintf(&b, "add_header %s %s always;\n", field, nginxWord(strings.Join(values, ", ")))
			}
		}
		if location := res.Header.Get("Location"); location != "" {
			fmt.Fprintf(&b, "return %d %s;\n}\n", res.StatusCode, nginxWord(location))
			continue
		}
		fmt.Fprintf(&b, "default_type %s;\n", nginxWord(res.Header.Get("Content-Type")))
		// A word of the configuration may have no more than 4096 bytes.
		const piece = 1500
		whole := ""
		for i := 0; len(body) > 0; i++ {
			part := body[:min(len(body), piece)]
			body = body[len(part):]
			fmt.Fprintf(&b, "set $part%d_%d %s;\n", n, i, nginxWord(string(part)))
			whole += fmt.Sprintf("${part%d_%d}", n, i)
		}
		fmt.Fprintf(&b, "return %d \"%s\";\n}\n", res.StatusCode, whole)
	}
	b.WriteString("} }\n")
	return []byte(b.String()), nil
}

// nginxWord quotes a word, in which a dollar begins the name of a variable.
func nginxWord(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "$", "${dollar}").Replace(s) + "'"
}
