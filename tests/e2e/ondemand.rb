# Stands for Open OnDemand: reads an app like apps/dashboard/app/models/batch_connect/{app,session}.rb of
# OSC/ondemand@e5bbaf1d7c4b, with the attributes of apps/dashboard/app/lib/smart_attributes, and writes the job like the
# template "basic" and the adapter of Slurm of OSC/ood_core@86656b3899b8 (lib/ood_core).
#
# stage APP DIRECTORY: with the values of the form as JSON on stdin; prints the arguments of sbatch, as JSON
# view APP DIRECTORY:  prints the HTML that is shown while the job runs
require "erb"
require "fileutils"
require "json"
require "ostruct"
require "yaml"

verb, app, staged = ARGV

def render(path, binding) = ERB.new(File.read(path), trim_mode: "-").result(binding)

if verb == "view"
  puts render("#{app}/view.html.erb", OpenStruct.new(YAML.safe_load_file("#{staged}/connection.yml")).instance_eval { binding })
  exit
end

manifest = YAML.safe_load_file("#{app}/manifest.yml")
unknown = manifest.keys - %w[name description icon url category subcategory role metadata new_window caption tile]
abort "manifest.yml: #{unknown}" unless unknown.empty? && manifest["role"] == "batch_connect"
form = YAML.safe_load_file("#{app}/form.yml")
abort "form.yml: #{form.keys}" unless form.keys == %w[cluster form attributes] && form["form"].is_a?(Array)

given = JSON.parse($stdin.read)
values = form["form"].to_h do |id|
  field = form["attributes"].fetch(id, {})
  next [id, field.to_s] unless field.is_a?(Hash) # a fixed value

  value = given.fetch(id, field["value"]).to_s
  choices = field["options"]&.map { |label, choice| [label, choice] }
  abort "form.yml: #{id}" if choices && choices.flatten.any? { |text| !text.is_a?(String) }
  value = choices.to_h.fetch(value.empty? ? choices.first.first : value) if choices # people choose labels
  abort "#{id} is required" if field["required"] && value.empty?
  [id, value]
end
context = OpenStruct.new(values)
illegal = OpenStruct.new.methods & values.keys.map(&:to_sym)
abort "form.yml: #{illegal}" unless illegal.empty?

submit = YAML.safe_load(render("#{app}/submit.yml.erb", context.instance_eval { binding }))
abort "submit.yml: #{submit}" unless submit.keys == %w[batch_connect script] && submit["batch_connect"] == { "template" => "basic" }

FileUtils.mkdir_p(staged, mode: 0o700)
session = Struct.new(:session, :context).new(nil, context)
Dir.glob("#{app}/template/*.erb") do |path|
  rendered = "#{staged}/#{File.basename(path, '.erb')}"
  File.write(rendered, render(path, session.instance_eval { binding }))
  File.chmod(File.stat(path).mode, rendered)
end

File.write("#{staged}/job_script_content.sh", <<~BASH)
  #!/bin/bash
  cd #{staged}
  export host
  export port
  create_yml() { (umask 077; echo -e "host: $host\\nport: $port\\npassword: $password" >"#{staged}/connection.yml"); }
  clean_up() { [[ ${SCRIPT_PID} ]] && pkill -P ${SCRIPT_PID} || :; pkill -P $$; exit ${1:-0}; }
  port_used() { (: </dev/tcp/${1%:*}/${1##*:}) >/dev/null 2>&1; }
  find_port() { local port; for port in $(shuf -i 2000-65535); do port_used "localhost:$port" || { echo "$port"; return; }; done; }
  create_passwd() ( set +o pipefail; tr -cd 'a-zA-Z0-9' </dev/urandom 2>/dev/null | head -c${1:-8} )
  export -f port_used find_port create_passwd
  host=$(hostname)
  [[ -e "#{staged}/before.sh" ]] && source "#{staged}/before.sh"
  "#{staged}/script.sh" &
  SCRIPT_PID=$!
  [[ -e "#{staged}/after.sh" ]] && source "#{staged}/after.sh"
  create_yml
  wait ${SCRIPT_PID} || clean_up 1
  clean_up
BASH

hours = values["bc_num_hours"].to_i
account = values["bc_account"].to_s.strip
queue = values["bc_queue"].to_s.strip
puts JSON.generate(
  ["-D", staged, "-o", "#{staged}/output.log", *(["-p", queue] unless queue.empty?), *(["-A", account] unless account.empty?),
   "-t", format("%02d:00:00", hours), "--export", "NONE", *submit["script"]["native"]]
)
