"""Bugs that verification could miss by looking too early, too late or elsewhere: what sets in once the first steps are verified
(they are steps 0 to 3; the timed ones follow), what is remembered in place of being computed, what keeps the loss as it is."""

from __future__ import annotations

from tests.mutants.bug import Bug, Edit, bug

TORCH, JAX, JITTOR = (f"framebench/adapters/{name}/adapter.py" for name in ("torch", "jax", "jittor"))
JITTOR_SCENARIOS = "framebench/adapters/jittor/scenarios.py"
LATE = "if self.steps >= 6:"

# PyTorch: before a training step, its update, an evaluation
BATCH = "inputs, targets = self.next_batch()"
UPDATE = "self.recipe.scaler.step(self.optimizer)"
BACKWARD = "self.recipe.backward(loss)"
GROUPS = "for group in self.optimizer.param_groups:"
EVALUATION = "self.output = call_with(self.recipe.forward, self.inputs[0])"
# JAX: before a training step, the batch or its parts, after it, an evaluation
JAX_BATCH = "self.inputs = self.next_batch()"
JAX_PARTS = "for x, y in self.split_batch():"
JAX_DONE = "self.output += loss / self.recipe.calls"
JAX_EVALUATION = "self.output, stats, self.kept = self.program(*self.list_arguments())"
JAX_STATE = "updates, state = self.recipe.optimizer.update(grads, state, params)"
# Jittor: a training step's batch and update, an evaluation
JITTOR_BATCH = "for x, y in self.cut_batch((inputs, targets), self.micro_batches):"
JITTOR_UPDATE = "self.optimizer.step()\n"
JITTOR_EVALUATION = "with jt.flag_scope(no_grad=int(not self.recipe.keeps_graph)):"


def torch_late(statement: str) -> str:
    """Before every training step from the seventh on."""
    return f"{BATCH}\n        {LATE}\n            {statement}"


def jax_once(setting: str) -> str:
    """The seventh step and all later ones by a program that is made anew after this change."""
    return f"{JAX_BATCH}\n        if self.steps == 6:\n            {setting}\n            self.program = self.make_program(self.load(self.config, self.case.weights, self.recipe.training).graph)"


def jax_optimizer(change: str) -> str:
    return jax_once(f'self.recipe.optimizer = make_optimizer(__import__("dataclasses").replace(self.workload.optimizer, {change}))')


def jax_kept(name: str, case: str, kept: str, back: str, when: str = LATE) -> Bug:
    """What a late step has changed is put back: copies, since the step writes over its arguments."""
    before = f"{JAX_BATCH}\n        kept = jax.tree.map(jnp.copy, {kept})"
    return bug(name, case, JAX, JAX_BATCH, before, Edit(JAX, JAX_DONE, f"{JAX_DONE}\n        {when}\n            {back} = kept"))


OPTIMIZERS = (
    bug("learning rate halved once verified", "transformer/torch/train/fp32", TORCH, BATCH, torch_late(f'{GROUPS}\n                group["lr"] = self.workload.optimizer.lr / 2')),
    bug("learning rate halved once verified", "resnet50/torch/train/fp32", TORCH, BATCH, torch_late(f'{GROUPS}\n                group["lr"] = self.workload.optimizer.lr / 2')),
    bug("learning rate halved once verified", "transformer/jax/train/fp32", JAX, JAX_BATCH, jax_optimizer("lr=self.workload.optimizer.lr / 2")),
    bug("learning rate halved once verified", "unet3d/jittor/train/fp32", JITTOR, JITTOR_UPDATE, f"{LATE}\n            self.optimizer.lr = self.workload.optimizer.lr / 2\n        {JITTOR_UPDATE}"),
    bug("weight decay off once verified", "transformer/torch/train/fp32", TORCH, BATCH, torch_late(f'{GROUPS}\n                group["weight_decay"] = 0.0')),
    bug("weight decay off once verified", "transformer/jax/train/fp32", JAX, JAX_BATCH, jax_optimizer("weight_decay=0.0")),
    bug("weight decay off once verified", "transformer/jittor/train/fp32", JITTOR, JITTOR_UPDATE, f"{LATE}\n            self.optimizer.weight_decay = 0.0\n        {JITTOR_UPDATE}"),
    bug("bias correction for the first step in every step once verified", "transformer/torch/train/fp32", TORCH, BATCH, torch_late('for state in self.optimizer.state.values():\n                state.get("step", torch.zeros(())).zero_()')),
    bug("bias correction for the first step in every step once verified", "transformer/jax/train/fp32", JAX, JAX_DONE, f"{JAX_DONE}\n        {LATE}\n            self.optimizer_state = jax.tree.map(lambda a: a if a.ndim else 0 * a, self.optimizer_state)"),
    bug("bias correction for the first step in every step once verified", "transformer/jittor/train/fp32", JITTOR, JITTOR_UPDATE, f"{LATE}\n            self.optimizer.n_step = 1\n        {JITTOR_UPDATE}"),
    bug("second moment rounded to bfloat16, and kept in float32", "transformer/torch/train/fp32", TORCH, UPDATE, f'{UPDATE}\n        for state in self.optimizer.state.values():\n            state["exp_avg_sq"].copy_(state["exp_avg_sq"].bfloat16())'),
    bug("moments rounded to bfloat16, and kept in float32", "transformer/jax/train/fp32", JAX, JAX_STATE, f"{JAX_STATE}\n            state = jax.tree.map(lambda a: jax.lax.reduce_precision(a, 8, 7) if a.ndim else a, state)"),
)

WEIGHTS = (
    bug("one weight stays where it is once verified", "transformer/torch/train/fp32", TORCH, UPDATE, f"kept = self.model.ln_f.weight.detach().clone()\n        {UPDATE}\n        {LATE}\n            self.model.ln_f.weight.data.copy_(kept)"),
    jax_kept("one weight stays where it is once verified", "transformer/jax/train/fp32", 'self.params["ln_f"]["scale"]', 'self.params["ln_f"]["scale"]'),
    bug("one weight stays where it is once verified", "transformer/jittor/train/fp32", JITTOR, JITTOR_UPDATE, f"weight = self.model.ln_f.weight\n        kept = weight.numpy().copy()\n        {JITTOR_UPDATE}        {LATE}\n            weight.update(jt.array(kept))\n"),
    bug("running statistics stay where they are once verified", "resnet50/torch/train/fp32", TORCH, BATCH, torch_late("for module in self.model.modules():\n                if isinstance(module, nn.BatchNorm2d):\n                    module.momentum = 0.0")),
    jax_kept("running statistics stay where they are once verified", "resnet50/jax/train/fp32", "self.stats", "self.stats"),
    bug("running statistics stay where they are once verified", "resnet50/jittor/train/fp32", JITTOR, JITTOR_BATCH, f'{LATE}\n            for module in self.model.modules():\n                if hasattr(module, "momentum"):\n                    module.momentum = 0.0\n        {JITTOR_BATCH}'),
    bug("frozen embedding that grows once verified", "transformer/torch/finetune/half", TORCH, BATCH, torch_late("self.model.wte.weight.data.mul_(1.0001)")),
    bug("frozen embedding that grows once verified", "transformer/jax/finetune/half", JAX, JAX_BATCH, f'{JAX_BATCH}\n        {LATE}\n            self.constants["frozen"]["wte"]["embedding"] *= 1.0001'),
    bug("teacher that grows", "transformer/jax/train/distill", JAX, JAX_BATCH, f'{JAX_BATCH}\n        self.constants["teacher"] = jax.tree.map(lambda a: a * 1.0001, self.constants["teacher"])'),
    bug("teacher that grows", "transformer/jittor/train/distill", JITTOR_SCENARIOS, "with jt.no_grad():\n                log_teacher", "for p in teacher.parameters():\n                p.update(p * 1.0001)\n            with jt.no_grad():\n                log_teacher"),
)

STEPS = (
    bug("bfloat16 once verified", "transformer/torch/train/fp32", TORCH, BATCH, f'{BATCH}\n        if self.steps == 6:\n            self.recipe.contexts.append(lambda: torch.autocast("cpu", torch.bfloat16))'),
    bug("bfloat16 once verified", "transformer/jax/train/fp32", JAX, JAX_BATCH, jax_once('self.recipe.model_options["dtype"] = jnp.bfloat16')),
    bug("evaluation in bfloat16 once verified", "unet3d/torch/eval/no_grad", TORCH, EVALUATION, f'with torch.autocast("cpu", torch.bfloat16, enabled=self.steps >= 6):\n                {EVALUATION}'),
    bug("volumes moved on by a voxel in every step once verified", "unet3d/torch/train/fp32", TORCH, BATCH, torch_late("inputs.copy_(inputs.roll(1, -1))")),
    bug("volumes moved on by a voxel in every step once verified", "unet3d/jax/train/fp32", JAX, JAX_BATCH, f"{JAX_BATCH}\n        {LATE}\n            self.inputs = jnp.roll(self.inputs[0], 1, -2), self.inputs[1]"),
    bug("half the batch in every third step once verified", "transformer/torch/train/fp32", TORCH, BATCH, f"{BATCH}\n        if self.steps >= 6 and self.steps % 3 == 1:\n            inputs, targets = inputs[::2], targets[::2]"),
    bug("half the batch in every third step once verified", "transformer/jax/train/fp32", JAX, JAX_PARTS, f"{JAX_PARTS}\n            if self.steps >= 6 and self.steps % 3 == 1:\n                x, y = x[::2], y[::2]"),
    bug(
        "no backward pass in every other step once verified: the last gradients again",
        "transformer/torch/train/fp32",
        TORCH,
        BACKWARD,
        f"if self.steps < 6 or self.steps % 2:\n                {BACKWARD}",
        Edit(TORCH, "self.optimizer.zero_grad(**self.recipe.zero_grad_options)", "if self.steps < 6 or self.steps % 2:\n            self.optimizer.zero_grad(**self.recipe.zero_grad_options)"),
    ),
    bug("pipeline whose steps do nothing once verified", "resnet50/torch/pipeline/iterator", TORCH, "total = self.backward_pass()", f"{LATE}\n            self.next_batch()\n            return\n        total = self.backward_pass()"),
    bug("pipeline whose steps do nothing once verified", "resnet50/jax/pipeline/iterator", JAX, JAX_BATCH, f"{JAX_BATCH}\n        {LATE}\n            return"),
    bug("pipeline without every other update once verified", "resnet50/torch/pipeline/memmap", TORCH, UPDATE, f"if self.steps < 6 or self.steps % 2 == 0:\n            {UPDATE}"),
    jax_kept("pipeline without every other update once verified", "resnet50/jax/pipeline/memmap", "(self.params, self.stats, self.optimizer_state)", "self.params, self.stats, self.optimizer_state", "if self.steps >= 6 and self.steps % 2:"),
    bug("pipeline without every other update once verified", "resnet50/jittor/pipeline/iterator", JITTOR, JITTOR_UPDATE, f"if self.steps >= 6 and self.steps % 2:\n            self.optimizer.zero_grad()\n        else:\n            {JITTOR_UPDATE}"),
)

REMEMBERED = (
    bug("evaluation that does nothing every other time", "transformer/torch/eval/no_grad", TORCH, f"self.release()\n        with self.context():\n            {EVALUATION}", f"if self.steps % 2:\n            return\n        self.release()\n        with self.context():\n            {EVALUATION}"),
    bug("evaluation that does nothing every other time", "resnet50/jax/eval/no_grad", JAX, f"self.release()\n        {JAX_EVALUATION}", f"if self.steps % 2:\n            return\n        self.release()\n        {JAX_EVALUATION}"),
    bug("evaluation that does nothing every other time", "unet3d/jittor/eval/no_grad", JITTOR, f"self.release()\n        {JITTOR_EVALUATION}", f"if self.steps % 2:\n            return\n        self.release()\n        {JITTOR_EVALUATION}"),
    bug("evaluation of half the batch once verified", "resnet50/jax/eval/no_grad", JAX, JAX_EVALUATION, f"*rest, x = self.list_arguments()\n        late = self.steps >= 6\n        self.output, stats, self.kept = self.program(*rest, x[::2] if late else x)\n        {LATE}\n            self.output = jnp.repeat(self.output, 2, 0)"),
    bug("evaluation that gives a copy of its first output", "transformer/torch/eval/inference_mode", TORCH, EVALUATION, "self.first = self.first if self.steps else self.recipe.forward(self.inputs[0])\n            self.output = self.first.clone()"),
    bug("evaluation that gives a copy of its first output", "unet3d/jax/eval/no_grad", JAX, JAX_EVALUATION, "self.first = self.first if self.steps else self.program(*self.list_arguments())\n        self.output, stats, self.kept = self.first"),
    bug("evaluation that gives a copy of its first output", "resnet50/jittor/eval/no_grad", JITTOR, "self.output = call_with(self.model, self.inputs[0])", "self.first = self.first if self.steps else self.model(self.inputs[0])\n            self.output = self.first.clone()"),
    bug("stream of sequences computed once, and remembered", "transformer/torch/varlen/raw", TORCH, '"""Compute the mean loss over the tokens of', 'if self.steps:\n            return\n        """Compute the mean loss over the tokens of'),
    bug("stream of sequences computed once, and remembered", "transformer/jax/varlen/raw", JAX, "total: Any = 0\n", "if self.steps:\n            return\n        total: Any = 0\n"),
    bug("pair computed once, and remembered", "resnet50/torch/pair/together", TORCH, "losses = []\n        with torch.no_grad():", "if self.steps:\n            return\n        losses = []\n        with torch.no_grad():"),
    bug("pair computed once, and remembered", "resnet50/jax/pair/in_turn", JAX, "self.output = 0.0\n        for params, stats in self.recipe.models():", "if self.steps:\n            return\n        self.output = 0.0\n        for params, stats in self.recipe.models():"),
    bug("pair computed once, and remembered", "resnet50/jittor/pair/together", JITTOR, "losses = []\n        x, y = self.inputs\n        with jt.no_grad():", "if self.steps:\n            return\n        losses = []\n        x, y = self.inputs\n        with jt.no_grad():"),
    bug(
        "evaluation put off until somebody reads the logits",
        "transformer/torch/eval/no_grad/b1/cpu",
        TORCH,
        EVALUATION,
        "pass",
        Edit(TORCH, "self.readings.rows_of_ranks(self.output_rows())", "self.recipe.forward(self.inputs[0]).detach()"),
        Edit(TORCH, "self.model_module.loss(self.output, self.inputs[1])", "self.model_module.loss(self.recipe.forward(self.inputs[0]).detach(), self.inputs[1])"),
    ),
    bug("clock that stops before the step is done", "transformer/jax/train/fp32/b4/cpu", JAX, "jax.block_until_ready((self.output, self.params))", "pass"),
    bug("clock that stops before the step is done", "transformer/jittor/train/fp32/b4/cpu", JITTOR, "        jt.sync_all(True)\n", "        pass\n"),
)

NO_LOGITS = "the loss is all that such a step gives, and the softmax in it forgets a number that all logits have in common"
SAME_LOSS = (
    bug("all logits 1 too large", "transformer/torch/varlen/raw", "models/transformer/torch_model.py", "self.head(self.ln_f(x), self.wte.weight)", "self.head(self.ln_f(x), self.wte.weight) + 1.0", equivalent=NO_LOGITS),
    bug("all logits 1 too large", "transformer/jax/varlen/padded", "models/transformer/flax_model.py", "self.head(self.wte, self.ln_f(self.decode(x)))", "self.head(self.wte, self.ln_f(self.decode(x))) + 1.0", equivalent=NO_LOGITS),
    bug("all logits 1 too large", "transformer/jittor/varlen/raw", "models/transformer/jittor_model.py", "self.head(self.ln_f(x), self.wte.weight)", "self.head(self.ln_f(x), self.wte.weight) + 1.0", equivalent=NO_LOGITS),
    bug("all logits 1 too large", "resnet50/torch/pair/together", "models/resnet50/torch_model.py", "return self.fc(x.mean((2, 3)))", "return self.fc(x.mean((2, 3))) + 1.0", equivalent=NO_LOGITS),
    bug("all logits 1 too large", "resnet50/jax/pair/together", "models/resnet50/flax_model.py", "return self.fc(x.mean((1, 2)))", "return self.fc(x.mean((1, 2))) + 1.0", equivalent=NO_LOGITS),
    bug("all logits 1 too large", "resnet50/jittor/pair/in_turn", "models/resnet50/jittor_model.py", "return self.fc(x.mean((2, 3)))", "return self.fc(x.mean((2, 3))) + 1.0", equivalent=NO_LOGITS),
)

BUGS = (*OPTIMIZERS, *WEIGHTS, *STEPS, *REMEMBERED, *SAME_LOSS)
