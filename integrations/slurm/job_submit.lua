-- job_submit.lua: an example for slurmctld (JobSubmitPlugins=lua), in the directory of slurm.conf.
--
-- It translates what a job asks of a GPU into gres/shard, so that all jobs on a node draw on one count:
-- * --vgpu, --vgpu-memory and --vgpu-share become --gres=shard:N. If the job names shards, too few are refused.
-- * --gres=gpu:1 becomes all shards of one GPU. Slurm 22.05 would give a whole GPU to a job while other jobs have
--   shards of it.
-- Several whole GPUs are possible in partitions whose nodes have no shards: name these in `whole`.

local shards_per_gpu = 16          -- Count of gres.conf, divided by the node's GPUs
local shard_memory = 512 * 2^20    -- as shard_memory= in plugstack.conf
local whole = {}                   -- such as { multi = true }
local configuration = "/etc/virgate/virgate.conf" -- has the profiles

local units = { [""] = 1, K = 2^10, M = 2^20, G = 2^30, T = 2^40 }

local function size_of(text)
	local number, unit = text:upper():match("^%s*(%d+%.?%d*)%s*([KMGT]?)I?B?%s*$")
	return number and tonumber(number) * units[unit]
end

-- Returns the memory and the share of a profile in virgate.conf; nil: there is none of that name.
local function find_profile(wanted)
	local file, inside, memory, share = io.open(configuration), false, nil, nil
	if not file then return nil end
	for line in file:lines() do
		local section = line:match("^%s*%[%s*(.-)%s*%]")
		local key, value = line:match("^%s*([%w_-]+)%s*=%s*(.-)%s*$")
		if section then inside = section:match("^profile%s+(%S+)$") == wanted end
		if inside and key == "memory" then memory = size_of(value) end
		if inside and key == "share" then share = tonumber(value) end
	end
	file:close()
	if memory or share then return memory or 0, share or 0 end
end

-- Returns the values of the options --vgpu, --vgpu-memory and --vgpu-share.
local function read_options(job)
	local options = {}
	for i = 0, (job.spank_job_env_size or 0) - 1 do
		local name, value = tostring(job.spank_job_env[i]):match("^_SLURM_SPANK_OPTION_virgate_([%w_]+)=(.*)$")
		if name then options[name:gsub("_", "-")] = value end
	end
	return options
end

-- Returns how many shards the options are worth; nil and a sentence if they are invalid.
local function count_shards(options)
	local memory, share = 0, tonumber(options["vgpu-share"] or "0")
	if options["vgpu"] then
		memory, share = find_profile(options["vgpu"])
		if not memory then return nil, "--vgpu: there is no profile \"" .. options["vgpu"] .. "\"" end
	end
	if options["vgpu-memory"] then memory = size_of(options["vgpu-memory"]) end
	if not memory or not share then return nil, "--vgpu-memory or --vgpu-share has no valid value" end
	local shards = math.max(math.ceil(memory / shard_memory), math.ceil(share * shards_per_gpu / 100))
	if shards > shards_per_gpu then return nil, "a vGPU of that size is larger than a GPU" end
	return shards
end

local function refuse(text)
	slurm.log_user("virgate: %s", text)
	return slurm.ERROR
end

local function is_set(text) return text ~= nil and text ~= "" end

function slurm_job_submit(job, partitions, uid)
	local options = read_options(job)
	local has_vgpu, asked = next(options) ~= nil, job.tres_per_node or ""
	if is_set(job.partition) and whole[job.partition] then
		return has_vgpu and refuse("there are no vGPUs in the partition " .. job.partition) or slurm.SUCCESS
	end
	for _, other in ipairs({ "tres_per_job", "tres_per_socket", "tres_per_task" }) do
		if is_set(job[other]) and job[other]:find("gpu") then
			return refuse("ask for a GPU by --gres=gpu:1 or --gres=shard:N")
		end
	end
	local gpus = tonumber(asked:match("gpu[%w_:]*:(%d+)") or (asked:match("gpu") and "1"))
	if gpus and gpus > 1 then return refuse("several GPUs for one job are in other partitions") end
	if gpus then asked = asked:gsub("gres:gpu[^,]*", "gres:shard:" .. shards_per_gpu, 1) end
	if has_vgpu then
		local needed, wrong = count_shards(options)
		if not needed then return refuse(wrong) end
		local has = tonumber(asked:match("shard:(%d+)"))
		if has and has < needed then
			return refuse(string.format("this vGPU needs --gres=shard:%d, and the job asks for %d", needed, has))
		end
		if not has then asked = (asked == "" and "" or asked .. ",") .. "gres:shard:" .. needed end
	end
	if asked ~= (job.tres_per_node or "") then job.tres_per_node = asked end
	return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
	if is_set(job.tres_per_node) and job.tres_per_node:find("gpu") then
		return refuse("the GPUs of a job cannot be changed: cancel it, and submit it again")
	end
	return slurm.SUCCESS
end

return slurm.SUCCESS
