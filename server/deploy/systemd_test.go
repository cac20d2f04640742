package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// mostExposed is what `systemd-analyze security` may give a unit at most.
const mostExposed = 2.0

// tool gives the path of a program, and skips the test where there is none.
func tool(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s: apt install %s", name, pkg)
	}
	return path
}

// units copies the units into a folder of their own, instances of edges among them, and
// has them start a program that is there.
func units(t *testing.T) (services, all []string) {
	t.Helper()
	files, err := filepath.Glob("systemd/*.s*")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if filepath.Ext(file) == ".sysusers" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, strings.Replace(filepath.Base(file), "@", "@8411", 1))
		if err := os.WriteFile(name, []byte(strings.NewReplacer("/usr/local/bin/webring", program, "/usr/local/bin/etcd", program).Replace(string(text))), 0o644); err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
		if filepath.Ext(name) == ".service" {
			services = append(services, name)
		}
	}
	if len(services) != 3 || len(all) != 5 {
		t.Fatalf("units: %v", all)
	}
	return services, all
}

func TestUnitsAreValid(t *testing.T) {
	t.Parallel()
	analyze := tool(t, "systemd-analyze", "systemd")
	_, all := units(t)
	if out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, all...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestUnitsAreConfined(t *testing.T) {
	t.Parallel()
	analyze := tool(t, "systemd-analyze", "systemd")
	services, _ := units(t)
	level := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)
	for _, service := range services {
		out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", service).CombinedOutput()
		m := level.FindSubmatch(out)
		if err != nil || m == nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if exposed, err := strconv.ParseFloat(string(m[1]), 64); err != nil || exposed > mostExposed {
			t.Errorf("%s is exposed by %s: %v\n%s", filepath.Base(service), m[1], err, out)
		}
	}
}

// The users of the units are those that the file for systemd-sysusers makes.
func TestUsersOfUnitsAreMade(t *testing.T) {
	t.Parallel()
	sysusers := tool(t, "systemd-sysusers", "systemd")
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := filepath.Abs("systemd/webring.sysusers")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(sysusers, "--root="+root, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made := map[string]string{}
	for kind, name := range map[string]string{"User": "passwd", "Group": "group"} {
		text, err := os.ReadFile(filepath.Join(root, "etc", name))
		if err != nil {
			t.Fatal(err)
		}
		made[kind] = "\n" + string(text)
	}
	named := regexp.MustCompile(`(?m)^(User|Group)=(\S+)$`)
	services, _ := units(t)
	for _, service := range services {
		text, err := os.ReadFile(service)
		if err != nil {
			t.Fatal(err)
		}
		all := named.FindAllStringSubmatch(string(text), -1)
		if len(all) != 2 {
			t.Errorf("%s names %v", service, all)
		}
		for _, m := range all {
			if !strings.Contains(made[m[1]], "\n"+m[2]+":") {
				t.Errorf("%s: nobody makes %s", service, m[0])
			}
		}
	}
}
