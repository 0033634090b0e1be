/* render.js PAGE: runs the script of a page of `espalier report`, and prints what it makes of the
 * page, as XML.  The page is cut up as a browser does it: at the first </script>. */
"use strict";
const text = require("fs").readFileSync(process.argv[2], "utf8");
const element = { data: { textContent: /<script [^>]*id="data">([^]*?)<\/script>/.exec(text)[1] }, page: { addEventListener() {}, querySelectorAll: () => [] } };
const document = { getElementById: (id) => element[id] };
require("vm").runInNewContext(/<script>([^]*?)<\/script>/.exec(text)[1], { document, innerWidth: 1280, addEventListener() {} }, { timeout: 60000 });
process.stdout.write(`<html><head>${/<title>[^]*?<\/title>/.exec(text)[0]}</head><body><main>${element.page.innerHTML}</main></body></html>\n`);
