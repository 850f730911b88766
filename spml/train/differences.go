package train

import (
	"fmt"
	"reflect"
	"strings"
)

// differences names the settings in which two configurations differ, "" for none.
func differences(a, b Config) string {
	a, b = a.asGiven(), b.asGiven()
	var out []string
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		x, y := va.Field(i).Interface(), vb.Field(i).Interface()
		if va.Field(i).Kind() == reflect.Map && va.Field(i).Len() == 0 && vb.Field(i).Len() == 0 {
			continue
		}
		if !reflect.DeepEqual(x, y) {
			name, _, _ := strings.Cut(va.Type().Field(i).Tag.Get("yaml"), ",")
			out = append(out, fmt.Sprintf("%s was %v, is %v", name, show(x), show(y)))
		}
	}
	return strings.Join(out, "; ")
}

func show(x any) any {
	if v := reflect.ValueOf(x); v.Kind() == reflect.Pointer && !v.IsNil() {
		return v.Elem().Interface()
	}
	return x
}
