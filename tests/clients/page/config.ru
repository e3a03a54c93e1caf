# SPDX-License-Identifier: BSD-2-Clause
# The smallest Rack application around the middleware of docs/clients.md.
require_relative 'limit'

use Limit
run ->(_env) { [200, { 'Content-Type' => 'text/plain' }, ["hello\n"]] }
